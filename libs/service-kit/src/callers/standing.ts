import {
  AlteredRecordError,
  applicationStatement,
  revisionOf,
  sessionStatement,
  signedEventTypes,
  streams,
  tenantStatement,
  UnavailableError,
  type Statement,
} from '@token-vault/contracts';
import type { TenantHashes } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { ApplicationRow, SessionRow, TenantRow } from './rows.ts';

/** The log says more than the row: it is looked at again in a moment. */
export class RowBehindError extends Error {}

/** The log says that what the row is about has come to its end. */
export class EndedError extends Error {
  readonly reason: string;
  constructor(reason: string) {
    super('ended');
    this.reason = reason;
  }
}

const endings: Readonly<Record<string, string>> = {
  TenantDeleted: 'deleted',
  ApplicationDeleted: 'deleted',
  ApplicationExpired: 'expired',
  SessionExpired: 'expired',
};

interface Checking {
  readonly store: Pick<EventStore, 'readStream'>;
  readonly hashes: TenantHashes;
}

/**
 * A row is believed when it says what the vault signed, and when its stream has nothing newer: else an old row (a right withdrawn, a
 * key regenerated, an application deleted) could be written back. The stream is read from the row's revision on, so as a rule
 * this reads nothing. @throws AlteredRecordError, RowBehindError, EndedError
 */
async function requireStanding(
  { store, hashes }: Checking,
  statement: Statement,
  signature: string | null,
  stream: string,
): Promise<void> {
  if (!hashes.isSigned(statement, signature)) throw new AlteredRecordError(statement.kind);
  let isBehind = false;
  for await (const { type } of store.readStream(stream, { from: (revisionOf(signature) ?? 0) + 1 })) {
    const reason = endings[type];
    if (reason !== undefined) throw new EndedError(reason);
    isBehind ||= signedEventTypes.has(type);
  }
  if (isBehind) throw new RowBehindError();
}

/**
 * Before housekeeping has signed what an older release made, nothing of the tenant can be checked. The tenant's keys tell whether an
 * older release made it, so a signature that is taken away does not bring this back. @throws UnavailableError
 */
export function requireUpgraded(hashes: TenantHashes, row: TenantRow): TenantHashes {
  if (row.tenant_signature === null && hashes.acceptsUnsigned)
    throw new UnavailableError('The records of the tenant are being signed.');
  return hashes;
}

export function requireTenant(checking: Checking, row: TenantRow): Promise<void> {
  const { plan, settings, accepts_unsigned: acceptsUnsigned, tenant_signature: signature } = row;
  const statement = tenantStatement({ plan, settings, acceptsUnsigned });
  return requireStanding(checking, statement, signature, streams.tenant(row.tenant_id));
}

export function requireApplication(checking: Checking, row: ApplicationRow): Promise<void> {
  const { id, type, key_hash: keyHash, permissions, rules, expires_at_text: expiresAt } = row;
  const statement = applicationStatement({ id, type, keyHash, permissions, rules, expiresAt });
  return requireStanding(checking, statement, row.signature, streams.application(row.tenant_id, id));
}

export function requireSession(checking: Checking, row: SessionRow): Promise<void> {
  const statement = sessionStatement({
    id: row.id,
    applicationId: row.application_id,
    keyHash: row.key_hash,
    authorizedBy: row.authorized_by,
    permissions: row.permissions,
    rules: row.rules,
    expiresAt: row.expires_at_text,
  });
  return requireStanding(checking, statement, row.signature, streams.session(row.tenant_id, row.id));
}
