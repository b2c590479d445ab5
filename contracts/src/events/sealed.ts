import { z } from 'zod';
import { signaturePattern } from '../statements.ts';

/** Encrypted data in events and read models: `sv1.<key id>.<base64url>`. Only libs/crypto makes and opens it. */
export const sealedValue = z
  .string()
  .regex(/^sv\d+\.[0-9a-f-]{36}\.[A-Za-z0-9_-]+$/)
  .brand<'SealedValue'>();
export type SealedValue = z.output<typeof sealedValue>;
/** Signature over the state after the event and the event's revision. */
export const requiredSignature = z.string().regex(signaturePattern);
/** Absent from events of releases that did not sign. */
export const signature = requiredSignature.optional();
export const keyId = z.uuid();
/** RFC 3339 time with the offset that its author used. */
export const moment = z.iso.datetime({ offset: true });
