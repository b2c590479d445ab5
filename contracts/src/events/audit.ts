import { z } from 'zod';
import { defineEvent, unchanged } from './registry.ts';

const position = z.string().regex(/^\d{1,20}$/);
const base64url = z.string().regex(/^[A-Za-z0-9_-]*$/);

/**
 * The state of a tenant's log at one moment: a hash chain over its events in log order (docs/how-to/verify-the-audit-log.md), signed with a
 * key of the tenant. Checkpoints themselves are not in the chain. The count of the previous checkpoint follows from `count` and the length
 * of `digests`. From version 2 on the signature covers the whole event but its position, and is the last field of the data.
 */
export const AuditCheckpointSigned = defineEvent(
  'AuditCheckpointSigned',
  z.object({
    tenant_id: z.uuid(),
    /** The checked stretch of the log: `after` is exclusive, `through` is inclusive. The same for every tenant. */
    after: position,
    through: position,
    /** The number of events of the tenant up to `through`. */
    count: z.int().min(0),
    /** SHA-256 of the hash chain at `through`. */
    head: base64url,
    /** The first 8 bytes of the hash of each event of the tenant in this stretch, so that a verifier can name the altered event. */
    digests: base64url,
    /** Ed25519 public key, raw bytes. */
    public_key: base64url,
    signature: base64url,
  }),
  [unchanged],
);

export const auditEvents = [AuditCheckpointSigned] as const;
