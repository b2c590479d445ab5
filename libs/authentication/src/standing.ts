import {
  AlteredRecordError,
  applicationStatement,
  consoleSessionStatement,
  revisionOf,
  sessionStatement,
  signedEventTypes,
  streams,
  tenantStatement,
  UnavailableError,
  type applicationEvents,
  type consoleSessionEvents,
  type EventOf,
  type sessionEvents,
  type Statement,
  type tenantEvents,
  type VaultEventType,
} from '@token-vault/contracts';
import type { TenantHashes } from '@token-vault/crypto';
import { readEntity, type EventStore } from '@token-vault/event-store';
import type { ApplicationRow, ConsoleSessionRow, SessionRow, TenantRow } from './rows.ts';

/** The log has newer events than the row: the row is read again in a moment. */
export class RowBehindError extends Error {}

/** The log says that the entity of the row has ended. */
export class EndedError extends Error {
  readonly reason: string;
  constructor(reason: string) {
    super('ended');
    this.reason = reason;
  }
}

type CallerEvent = EventOf<
  (
    typeof tenantEvents | typeof applicationEvents | typeof sessionEvents | typeof consoleSessionEvents
  )[number]
>['type'];

/**
 * The reason why an event of a tenant, an application or a session ends it; undefined for an event that does not end it. A missing event
 * does not compile.
 */
const endings: Readonly<Record<CallerEvent, string | undefined>> = {
  TenantCreated: undefined,
  TenantUpdated: undefined,
  TenantPlanChanged: undefined,
  TenantWebhookSecretRotated: undefined,
  TenantSigned: undefined,
  TenantDeleted: 'deleted',
  ApplicationCreated: undefined,
  ApplicationUpdated: undefined,
  ApplicationKeyRegenerated: undefined,
  ApplicationKeyAdded: undefined,
  ApplicationKeyDeleted: undefined,
  ApplicationSigned: undefined,
  ApplicationDeleted: 'deleted',
  ApplicationExpired: 'expired',
  SessionOpened: undefined,
  SessionAuthorized: undefined,
  SessionExpired: 'expired',
  ConsoleSessionOpened: undefined,
  ConsoleSessionUsed: undefined,
  ConsoleSessionEnded: 'ended',
  ConsoleSessionExpired: 'expired',
};
const reasonOf: Readonly<Partial<Record<VaultEventType, string | undefined>>> = endings;

interface Checking {
  readonly store: Pick<EventStore, 'readStream'>;
  readonly hashes: TenantHashes;
}

/**
 * A row is accepted when it matches its signature and its stream has no newer event. Otherwise an attacker could write an old row back (a
 * right before its withdrawal, a key before its regeneration, a deleted application). The stream is read from the row's revision on, so
 * usually this reads no event. @throws AlteredRecordError, RowBehindError, EndedError
 */
async function requireStanding(
  { store, hashes }: Checking,
  statement: Statement,
  signature: string | null,
  stream: string,
): Promise<void> {
  if (!hashes.isSigned(statement, signature)) throw new AlteredRecordError(statement.kind);
  let isBehind = false;
  for await (const { type } of readEntity(store, stream, { from: (revisionOf(signature) ?? 0) + 1 })) {
    const reason = reasonOf[type];
    if (reason !== undefined) throw new EndedError(reason);
    isBehind ||= signedEventTypes.has(type);
  }
  if (isBehind) throw new RowBehindError();
}

/**
 * Until housekeeping has signed the records of an older release, records of the tenant cannot be checked. The tenant's keys say whether an
 * older release made the tenant, so removing a signature does not restore that state. @throws UnavailableError
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
  const { key_hash: keyHash, key_id: keyId, expires_at_text: expiresAt } = row;
  const statement = applicationStatement({ ...row, keyHash, keyId, expiresAt });
  return requireStanding(checking, statement, row.signature, streams.application(row.tenant_id, row.id));
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
    openerKeyHash: row.opener_key_hash,
    authorizerKeyHash: row.authorizer_key_hash,
  });
  return requireStanding(checking, statement, row.signature, streams.session(row.tenant_id, row.id));
}

export function requireConsoleSession(checking: Checking, row: ConsoleSessionRow): Promise<void> {
  const statement = consoleSessionStatement({
    id: row.id,
    secretHash: row.secret_hash,
    members: row.members,
    endsAt: row.ends_at_text,
    expiresAt: row.expires_at_text,
  });
  return requireStanding(checking, statement, row.signature, streams.consoleSession(row.tenant_id, row.id));
}
