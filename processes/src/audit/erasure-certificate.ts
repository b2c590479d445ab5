import { remainingKeys, type KeyRing } from '@token-vault/crypto';
import { answerEntityOfToken, type Clock } from '@token-vault/service-kit';
import type { Pool } from 'pg';
import { z } from 'zod';
import { hexHashOf } from './chain.ts';
import type { LogRow } from './log-rows.ts';
import { isSignature, signerOf, type Signer } from './signature.ts';
import { readTokenErasure, type TokenErasure } from './token-erasure.ts';

const format = 'token-vault erasure certificate 1';
const base64url = z.string().regex(/^[A-Za-z0-9_-]+$/);
const position = z.string().regex(/^\d{1,20}$/);

/** An event as the audit chain has it: whoever has an export of the log finds it there. */
const eventReference = z.strictObject({
  type: z.string(),
  id: z.uuid(),
  stream: z.string(),
  revision: z.int().min(0),
  position,
  occurred_at: z.iso.datetime(),
  /** SHA-256 over all that is stored of the event, hex: its link in the chain that checkpoints sign. */
  hash: z.string().regex(/^[\da-f]{64}$/),
});

const erasureCertificate = z.strictObject({
  format: z.literal(format),
  tenant_id: z.uuid(),
  token_id: z.string(),
  token_type: z.string(),
  /** What ended the token. */
  erased_by: eventReference,
  /** Every data key that anything of the token was ever sealed under. None is there any more. */
  destroyed_keys: z.array(
    z.strictObject({
      key_id: z.uuid(),
      sealed: z.array(z.enum(['data', 'cvc'])),
      decided_by: eventReference,
    }),
  ),
  /** When the key ring was looked through and held none of them, nor one of the token's stored answers. */
  verified_at: z.iso.datetime(),
  public_key: base64url,
  signature: base64url,
});

/** What was destroyed, when, and by which event. Holds no key material and nothing of the data. */
export type ErasureCertificate = z.infer<typeof erasureCertificate>;
type Unsigned = Omit<ErasureCertificate, 'signature'>;

/** Why there is no certificate, in one line for the operator. */
export class NotErasedError extends Error {
  readonly code = 'not_erased';
}

/** JSON in the order of the schema, whatever order a file has. */
const textOf = (certificate: Unsigned): string =>
  JSON.stringify([format, erasureCertificate.omit({ signature: true }).parse(certificate)]);

function referTo(row: LogRow): z.infer<typeof eventReference> {
  const { type, id, stream, revision, position: at } = row;
  const { occurred_at } = JSON.parse(row.metadata) as { occurred_at: string };
  return { type, id, stream, revision, position: at, occurred_at, hash: hexHashOf(row) };
}

export interface CertificateOptions {
  readonly pool: Pool;
  readonly keyRing: Pick<KeyRing, 'hashes'>;
  readonly clock: Clock;
  readonly tenantId: string;
  readonly tokenId: string;
}

/**
 * Says by the log and the key ring what was erased of a token, and signs it as the tenant's checkpoints are signed.
 * @throws NotErasedError when there is no such token, it is not erased, or one of its keys is still there.
 * @throws TenantKeysMissingError when the tenant is deleted: its signing key went with it.
 */
export async function certifyErasure(options: CertificateOptions): Promise<ErasureCertificate> {
  const { pool, keyRing, clock, tenantId, tokenId } = options;
  const signer = await signerOf(keyRing, tenantId);
  const erasure = await readTokenErasure(pool, tenantId, tokenId);
  if (!erasure) throw new NotErasedError(`tenant ${tenantId} has never had a token ${tokenId}`);
  const { endedBy, keys } = erasure;
  if (!endedBy) throw new NotErasedError(`token ${tokenId} is not erased: it is there`);
  const remaining = await remainingKeys(pool, tenantId, {
    keyIds: [...keys.keys()],
    entities: [`token:${tokenId}`, answerEntityOfToken(tokenId)],
  });
  if (remaining.length > 0)
    throw new NotErasedError(
      `token ${tokenId} is not yet erased: ${remaining.length} of its data keys are still there (${remaining.join(', ')})`,
    );
  return signed(signer, { ...options, verifiedAt: clock.now() }, erasure, endedBy);
}

function signed(
  signer: Signer,
  { tenantId, tokenId, verifiedAt }: { tenantId: string; tokenId: string; verifiedAt: Date },
  { keys, tokenType }: TokenErasure,
  endedBy: LogRow,
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
      // A key that was replaced, or that a transaction never committed: at the end of the token nothing needs it.
      decided_by: referTo(decidedBy ?? endedBy),
    })),
    verified_at: verifiedAt.toISOString(),
    public_key: signer.publicKey,
  };
  return { ...certificate, signature: signer.sign(textOf(certificate)) };
}

/**
 * Offline: takes nothing but the text of the certificate and the tenant's public key, raw, base64url, from a source of one's own.
 * @returns the certificate, or undefined when it is not one, was altered, or is signed by another key.
 */
export function verifyErasureCertificate(text: string, publicKey: string): ErasureCertificate | undefined {
  const certificate = erasureCertificate.safeParse(parse(text)).data;
  if (!certificate || certificate.public_key !== publicKey) return undefined;
  const { signature, ...unsigned } = certificate;
  return isSignature(textOf(unsigned), publicKey, signature) ? certificate : undefined;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
