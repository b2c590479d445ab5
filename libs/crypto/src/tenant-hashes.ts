import { revisionOf, type Statement } from '@token-vault/contracts';
import { createHmac, createSecretKey, timingSafeEqual, type KeyObject } from 'node:crypto';
import { deriveKey } from './aead.ts';
import { encodeBase58 } from './base58.ts';
import { frame } from './framing.ts';
import { isSecret, type Secret } from './secret.ts';

/** The keyed hashes of one tenant. Equal input gives equal output for the tenant's life, across key rotations. */
export interface TenantHashes {
  /** Equal for equal type and value within the tenant, different everywhere else; 43–44 base-58 characters. */
  fingerprint(tokenType: string, value: Secret<string> | string): string;
  /** Equal for values equal but for case (rules.md §8); 43 base64url characters. `field` separates domains. */
  blindIndex(field: string, value: Secret<string> | string): string;
  /** 32 bytes for an HMAC of the caller's, different for each purpose, e.g. `idempotency`. */
  macKey(purpose: string): Buffer;
  /** Signs what a record says, for the event at this revision of the record's stream. */
  sign(statement: Statement, revision: number): string;
  /** Whether the record says what was signed; who watches the key ring is told when not. */
  isSigned(statement: Statement, signature: string | null | undefined): boolean;
  /** As `isSigned`; true also for a record without a signature while `acceptsUnsigned`. */
  isBelieved(statement: Statement, signature: string | null | undefined): boolean;
  /** Records of a release before signatures are being signed; until then they are believed as they are. */
  readonly acceptsUnsigned: boolean;
}

/** Told that a stored record does not say what was signed. */
export type AlterationObserver = (kind: Statement['kind'], tenantId: string) => void;

/** As long as the tag of a sealed value. */
const signatureBytes = 16;

/** JSON of a list of texts is unambiguous, holds lone surrogates too, and is made by the runtime in one call. */
function macOf(key: KeyObject, { kind, texts }: Statement, revision: number): Buffer {
  const mac = createHmac('sha256', key).update(JSON.stringify([kind, revision, ...texts]));
  return mac.digest().subarray(0, signatureBytes);
}

/** @param indexKey the tenant's 32 random bytes from which every hash key is derived. */
export function createTenantHashes(
  indexKey: Buffer,
  {
    acceptsUnsigned = false,
    onAltered,
  }: { readonly acceptsUnsigned?: boolean; readonly onAltered?: (kind: Statement['kind']) => void } = {},
): TenantHashes {
  const statementKey = createSecretKey(deriveKey(indexKey, 'mac', 'statement'));
  const fingerprintKey = deriveKey(indexKey, 'fingerprint');
  const blindIndexKey = deriveKey(indexKey, 'blind-index');

  function isSigned(statement: Statement, signature: string | null | undefined): boolean {
    const revision = revisionOf(signature);
    const isGenuine =
      revision !== undefined &&
      timingSafeEqual(
        macOf(statementKey, statement, revision),
        Buffer.from(signature?.slice(-22) ?? '', 'base64url'),
      );
    if (!isGenuine) onAltered?.(statement.kind);
    return isGenuine;
  }

  return {
    acceptsUnsigned,
    isSigned,
    isBelieved: (statement, signature) =>
      (acceptsUnsigned && (signature ?? null) === null) || isSigned(statement, signature),
    fingerprint(tokenType, value) {
      return encodeBase58(keyedHash(fingerprintKey, tokenType, plain(value)), 43);
    },
    blindIndex(field, value) {
      return keyedHash(blindIndexKey, field, foldCase(plain(value))).toString('base64url');
    },
    macKey(purpose) {
      return deriveKey(indexKey, 'mac', purpose);
    },
    sign(statement, revision) {
      return `m1.${revision}.${macOf(statementKey, statement, revision).toString('base64url')}`;
    },
  };
}

function plain(value: Secret<string> | string): string {
  return isSecret(value) ? value.expose() : value;
}

function keyedHash(key: Buffer, domain: string, value: string): Buffer {
  const hmac = createHmac('sha256', key);
  // JSON may carry lone surrogates, which UTF-8 would make equal to each other: those texts are hashed as UTF-16.
  if (value.isWellFormed()) hmac.update(frame([domain, 'utf-8'])).update(value, 'utf8');
  else hmac.update(frame([domain, 'utf-16'])).update(value, 'utf16le');
  return hmac.digest();
}

/** Upper case first, because only it unfolds `ß`, `ſ` and the two small sigmas to what their capitals are. */
function foldCase(value: string): string {
  return value.normalize('NFC').toUpperCase().toLowerCase().normalize('NFC');
}
