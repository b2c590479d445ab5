import { z } from 'zod';
import { signaturePattern } from '../statements.ts';

/** Encrypted data as it stands in events and read models: `sv1.<key id>.<base64url>`. Made and opened by libs/crypto only. */
export const sealedValue = z.string().regex(/^sv\d+\.[0-9a-f-]{36}\.[A-Za-z0-9_-]+$/);
/** Of what the event leaves, at its revision. */
export const requiredSignature = z.string().regex(signaturePattern);
/** Events of a release before signatures have none. */
export const signature = requiredSignature.optional();
export const keyId = z.uuid();
/** RFC 3339 with the offset its author used. */
export const moment = z.iso.datetime({ offset: true });
