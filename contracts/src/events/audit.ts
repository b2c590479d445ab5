import { z } from 'zod';
import { defineEvent } from './registry.ts';

const position = z.string().regex(/^\d{1,20}$/);
const base64url = z.string().regex(/^[A-Za-z0-9_-]*$/);

/**
 * What the log of a tenant was at a moment: a hash chain over its events in log order (docs/how-to/verify-the-audit-log.md), signed with a
 * key of the tenant. Checkpoints themselves are not in the chain; each names the count before it by its own digests.
 */
export const AuditCheckpointSigned = defineEvent(
  'AuditCheckpointSigned',
  z.object({
    tenant_id: z.uuid(),
    /** The stretch of the log that was looked at: exclusive, inclusive. The same for every tenant. */
    after: position,
    through: position,
    /** Events of the tenant up to `through`. */
    count: z.int().min(0),
    /** SHA-256 of the chain at `through`. */
    head: base64url,
    /** The first 8 bytes of the hash of each event of the tenant in this stretch, so that an altered one is known by name. */
    digests: base64url,
    /** Ed25519, raw. */
    public_key: base64url,
    signature: base64url,
  }),
);

export const auditEvents = [AuditCheckpointSigned] as const;
