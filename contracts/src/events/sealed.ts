import { z } from 'zod';

/** Encrypted data as it stands in events and read models: `sv1.<key id>.<base64url>`. Made and opened by libs/crypto only. */
export const sealedValue = z.string().regex(/^sv\d+\.[0-9a-f-]{36}\.[A-Za-z0-9_-]+$/);
export const keyId = z.uuid();
/** RFC 3339 with the offset its author used. */
export const moment = z.iso.datetime({ offset: true });
