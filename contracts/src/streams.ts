import { createHash } from 'node:crypto';

/** The longest stream name that every event store accepts (port.ts of libs/event-store). */
const maxNameLength = 512;

/**
 * Names of streams, one for each aggregate: `<kind>-<tenant id>.<entity id>`. Callers may choose entity ids, so they are percent-encoded:
 * an id cannot name the stream of another entity or bring control characters into a store. A letter of another script may take nine
 * characters; if the name gets too long, a hash replaces the id. The colon in `sha256:` occurs in no encoded id.
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
  proxy: aggregate('proxy'),
  transaction: aggregate('transaction'),
  /** The open transactions of an application. */
  transactionsOf: aggregate('transactions'),
  session: aggregate('session'),
  consoleSession: aggregate('console'),
  invocation: aggregate('invocation'),
  /** Audited reads, refusals and failed authentications of one UTC day (`YYYY-MM-DD`). */
  access: aggregate('access'),
  /** The deliveries of one security webhook. */
  alert: aggregate('alert'),
  /** Signed checkpoints of a tenant's log. */
  audit: (tenantId: string) => `audit-${tenantId}`,
} as const;
