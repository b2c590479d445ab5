import { z } from 'zod';

export const erasureCertificateFormat = 'token-vault erasure certificate 1';
const base64url = z.string().regex(/^[A-Za-z0-9_-]+$/);
const position = z.string().regex(/^\d{1,20}$/);

/** A reference to an event in the audit chain: a reader of an export of the log finds the event by it. */
const eventReference = z.strictObject({
  type: z.string(),
  id: z.uuid(),
  stream: z.string(),
  revision: z.int().min(0),
  position,
  occurred_at: z.iso.datetime(),
  /** SHA-256 over all stored fields of the event, hex: its link in the chain that checkpoints sign. */
  hash: z.string().regex(/^[\da-f]{64}$/),
});

export const erasureCertificate = z.strictObject({
  format: z.literal(erasureCertificateFormat),
  tenant_id: z.uuid(),
  token_id: z.string(),
  token_type: z.string(),
  /** The event that ended the token. */
  erased_by: eventReference,
  /** Every data key under which a value of the token was ever sealed. All of them are destroyed. */
  destroyed_keys: z.array(
    z.strictObject({
      key_id: z.uuid(),
      sealed: z.array(z.enum(['data', 'cvc'])),
      decided_by: eventReference,
    }),
  ),
  /** When the key ring was searched and had none of these keys, nor a key of the token's stored answers. */
  verified_at: z.iso.datetime(),
  public_key: base64url,
  signature: base64url,
});
/** Which keys were destroyed, when, and by which event. Contains no key material and no token data. */
export type ErasureCertificate = z.infer<typeof erasureCertificate>;
