import { createHash } from 'node:crypto';

/** What every event store takes (port.ts of libs/event-store). */
const maxNameLength = 512;

/**
 * Names of streams: one an aggregate, `<kind>-<tenant id>.<entity id>`. Entity ids may be chosen by callers, so they are
 * percent-encoded: no id can name another's stream or carry control characters into a store. Where that is too long (a letter of
 * another script takes up to nine characters) a hash stands for the id; its colon is in no encoded id.
 */
const aggregate = (kind: string) => (tenantId: string, entityId: string) => {
  const name = `${kind}-${tenantId}.${encodeURIComponent(entityId)}`;
  if (name.length <= maxNameLength) return name;
  return `${kind}-${tenantId}.sha256:${createHash('sha256').update(entityId).digest('hex')}`;
};

export const streams = {
  tenant: (tenantId: string) => `tenant-${tenantId}`,
  application: aggregate('application'),
  token: aggregate('token'),
  fingerprint: aggregate('fingerprint'),
  reactor: aggregate('reactor'),
  transaction: aggregate('transaction'),
  /** How many transactions an application has open. */
  transactionsOf: aggregate('transactions'),
  session: aggregate('session'),
  invocation: aggregate('invocation'),
  /** Audited reads, refusals and failed authentications of one UTC day (`YYYY-MM-DD`). */
  access: aggregate('access'),
  /** Signed checkpoints of a tenant's log. */
  audit: (tenantId: string) => `audit-${tenantId}`,
} as const;
