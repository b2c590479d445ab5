/**
 * Names of streams: one an aggregate, `<kind>-<tenant id>.<entity id>`. Entity ids may be chosen by callers, so they are
 * percent-encoded: no id can name another's stream or carry control characters into a store.
 */
const aggregate = (kind: string) => (tenantId: string, entityId: string) =>
  `${kind}-${tenantId}.${encodeURIComponent(entityId)}`;

export const streams = {
  tenant: (tenantId: string) => `tenant-${tenantId}`,
  application: aggregate('application'),
  token: aggregate('token'),
  fingerprint: aggregate('fingerprint'),
  reactor: aggregate('reactor'),
  transaction: aggregate('transaction'),
  session: aggregate('session'),
  invocation: aggregate('invocation'),
  /** Audited reads, refusals and failed authentications of one UTC day (`YYYY-MM-DD`). */
  access: aggregate('access'),
  /** Signed checkpoints of a tenant's log. */
  audit: (tenantId: string) => `audit-${tenantId}`,
} as const;
