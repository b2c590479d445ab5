import {
  erasureCertificate,
  erasureCertificateFormat as format,
  type ErasureCertificate,
} from '@token-vault/contracts';
import { remainingKeys, type KeyRing } from '@token-vault/crypto';
import type { EventStore, StoredEvent } from '@token-vault/event-store';
import { answerEntityOfToken } from '@token-vault/idempotency';
import type { Clock } from '@token-vault/operations';
import type { Pool } from 'pg';
import { hexHashOf } from './chain.ts';
import { parseJson } from './parse-json.ts';
import { isSignature, signerOf, type Signer } from './signature.ts';
import { readTokenErasure, type TokenErasure } from './token-erasure.ts';

type Unsigned = Omit<ErasureCertificate, 'signature'>;

/** There is no certificate. The message is one line for the operator. */
export class NotErasedError extends Error {
  readonly code = 'not_erased';
  /** Undefined when the tenant has never had the token. */
  readonly tokenType: string | undefined;
  constructor(message: string, tokenType?: string) {
    super(message);
    this.tokenType = tokenType;
  }
}

/** JSON with the properties in the order of the schema, whatever their order in a file is. */
const textOf = (certificate: Unsigned): string =>
  JSON.stringify([format, erasureCertificate.omit({ signature: true }).parse(certificate)]);

function referTo(row: StoredEvent): ErasureCertificate['erased_by'] {
  const { type, id, stream, revision, position: at } = row;
  const { occurred_at } = JSON.parse(row.metadata) as { occurred_at: string };
  return { type, id, stream, revision, position: at, occurred_at, hash: hexHashOf(row) };
}

export interface CertificateOptions {
  readonly store: EventStore;
  /** The pool of the key ring. */
  readonly pool: Pool;
  readonly keyRing: Pick<KeyRing, 'hashes'>;
  readonly clock: Clock;
  readonly tenantId: string;
  readonly tokenId: string;
}

/**
 * Finds in the log and the key ring which values of a token were erased, and signs the result with the key of the tenant's checkpoints.
 * @throws NotErasedError when the token does not exist, is not erased, or one of its keys still exists.
 * @throws TenantKeysMissingError when the tenant is deleted: its signing key was destroyed too.
 */
export async function certifyErasure(options: CertificateOptions): Promise<ErasureCertificate> {
  const { store, pool, keyRing, clock, tenantId, tokenId } = options;
  const signer = await signerOf(keyRing, tenantId);
  const erasure = await readTokenErasure(store, tenantId, tokenId);
  if (!erasure) throw new NotErasedError(`tenant ${tenantId} has never had a token ${tokenId}`);
  const { endedBy, keys, tokenType } = erasure;
  if (!endedBy) throw new NotErasedError(`token ${tokenId} is not erased: it is there`, tokenType);
  const remaining = await remainingKeys(pool, tenantId, {
    keyIds: [...keys.keys()],
    entities: [`token:${tokenId}`, answerEntityOfToken(tokenId)],
  });
  if (remaining.length > 0)
    throw new NotErasedError(
      `token ${tokenId} is not yet erased: ${remaining.length} of its data keys are still there (${remaining.join(', ')})`,
      tokenType,
    );
  return signed(signer, { ...options, verifiedAt: clock.now() }, erasure, endedBy);
}

function signed(
  signer: Signer,
  { tenantId, tokenId, verifiedAt }: { tenantId: string; tokenId: string; verifiedAt: Date },
  { keys, tokenType }: TokenErasure,
  endedBy: StoredEvent,
): ErasureCertificate {
  const certificate: Unsigned = {
    format,
    tenant_id: tenantId,
    token_id: tokenId,
    token_type: tokenType,
    erased_by: referTo(endedBy),
    destroyed_keys: [...keys].map(([id, { fields, decidedBy }]) => ({
      key_id: id,
      sealed: (['data', 'cvc'] as const).filter((field) => fields.has(field)),
      // A key that was replaced, or whose transaction was never committed, is not needed after the end of the token.
      decided_by: referTo(decidedBy ?? endedBy),
    })),
    verified_at: verifiedAt.toISOString(),
    public_key: signer.publicKey,
  };
  return { ...certificate, signature: signer.sign(textOf(certificate)) };
}

/**
 * Offline: needs only the text of the certificate and the tenant's public key, raw, base64url, from a source that the verifier trusts.
 * @returns the certificate, or undefined when it is not valid, was altered, or is signed by another key.
 */
export function verifyErasureCertificate(text: string, publicKey: string): ErasureCertificate | undefined {
  const certificate = erasureCertificate.safeParse(parseJson(text)).data;
  if (!certificate || certificate.public_key !== publicKey) return undefined;
  const { signature, ...unsigned } = certificate;
  return isSignature(textOf(unsigned), publicKey, signature) ? certificate : undefined;
}
