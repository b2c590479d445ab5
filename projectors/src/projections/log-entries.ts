import type { EntityType } from '@token-vault/contracts';
import type { Handlers, Occurrence, SqlOp } from '../projection.ts';

interface Entry {
  readonly entityType: EntityType;
  readonly entityId: string | undefined;
  readonly operation: string;
  readonly message: string;
}

type Told<Data> = Pick<Occurrence, 'metadata' | 'position' | 'ordinal'> & { readonly data: Data };

/** Refused requests may name anything as an id; no real one is longer (decisions.md §3), and indexes have their limit. */
const maxIdLength = 400;

const entries = (event: Told<unknown>, found: readonly Entry[]): SqlOp[] =>
  found.map(({ entityType, entityId, operation, message }, index) => ({
    kind: 'insert',
    table: 'entry',
    row: {
      tenant_id: event.metadata.tenant_id,
      seq: event.position,
      ordinal: event.ordinal + index,
      actor_id: event.metadata.actor.id,
      actor_type: event.metadata.actor.kind,
      entity_type: entityType,
      entity_id: entityId?.slice(0, maxIdLength),
      operation,
      message,
      created_at: event.metadata.occurred_at,
    },
  }));

/** `card` and `bank` are named for themselves, every other type is a token. */
export const entityTypeOf = (tokenType: string): EntityType =>
  tokenType === 'card' || tokenType === 'bank' ? tokenType : 'token';

/** Handlers for events that tell by one property which entity they are about. */
const about =
  <Key extends string>(entityType: EntityType, idKey: Key) =>
  (operation: string, message: string) =>
  (event: Told<Readonly<Record<Key, string>>>): SqlOp[] =>
    entries(event, [{ entityType, entityId: event.data[idKey], operation, message }]);

const tenant = about('tenant', 'tenant_id');
const application = about('application', 'application_id');
const session = about('session', 'session_id');
const reactor = about('reactor', 'reactor_id');
const transaction = about('transaction', 'transaction_id');

const token =
  (operation: string, message: string) =>
  (event: Told<{ readonly token_id: string; readonly token_type: string }>): SqlOp[] => {
    const { token_id: entityId, token_type: tokenType } = event.data;
    return entries(event, [{ entityType: entityTypeOf(tokenType), entityId, operation, message }]);
  };

const readMessages = { read: 'retrieved', list: 'listed', search: 'found', use: 'used' } as const;

const capitalised = (name: string): string => name.charAt(0).toUpperCase() + name.slice(1);
/** Cards and bank accounts are tokens in words. */
const nameOf = (entity: EntityType): string =>
  capitalised(entity === 'card' || entity === 'bank' ? 'token' : entity);

export const logHandlers: Handlers = {
  TenantCreated: tenant('create', 'Tenant created'),
  TenantUpdated: tenant('update', 'Tenant updated'),
  TenantPlanChanged: tenant('update', 'Tenant plan changed'),
  TenantDeleted: tenant('delete', 'Tenant deleted'),
  TenantWebhookSecretRotated: tenant('regenerate', 'Tenant webhook secret regenerated'),

  ApplicationCreated: application('create', 'Application created'),
  ApplicationUpdated: application('update', 'Application updated'),
  ApplicationKeyRegenerated: application('regenerate', 'Application key regenerated'),
  ApplicationDeleted: application('delete', 'Application deleted'),
  ApplicationExpired: application('expire', 'Application expired'),

  SessionOpened: session('create', 'Session created'),
  SessionAuthorized: session('authorize', 'Session authorized'),
  SessionExpired: session('expire', 'Session expired'),

  TokenCreated: token('create', 'Token created'),
  TokenUpdated: token('update', 'Token updated'),
  TokenDeleted: token('delete', 'Token deleted'),
  TokenExpired: token('expire', 'Token expired'),
  TokenCvcPurged: token('purge', 'Token cvc purged'),

  ReactorCreated: reactor('create', 'Reactor created'),
  ReactorUpdated: reactor('update', 'Reactor updated'),
  ReactorDeleted: reactor('delete', 'Reactor deleted'),
  ReactorInvoked: reactor('react', 'Reactor invoked'),
  ReactorSucceeded: reactor('react', 'Reactor succeeded'),
  ReactorFailed: reactor('react', 'Reactor failed'),
  WebhookDelivered: reactor('webhook', 'Reactor webhook delivered'),
  WebhookAttemptFailed: reactor('webhook', 'Reactor webhook attempt failed'),
  WebhookGivenUp: reactor('webhook', 'Reactor webhook given up'),

  TransactionOpened: transaction('create', 'Transaction created'),
  TransactionCommitted: transaction('commit', 'Transaction committed'),
  TransactionRolledBack: transaction('rollback', 'Transaction rolled back'),
  TransactionExpired: transaction('expire', 'Transaction expired'),

  TokensRead: (event) =>
    entries(
      event,
      event.data.tokens.map((read) => ({
        entityType: entityTypeOf(read.token_type),
        entityId: read.token_id,
        operation: event.data.operation,
        message: `Token ${readMessages[event.data.operation]}`,
      })),
    ),
  TokensExported: (event) =>
    entries(
      event,
      event.data.tokens.map(({ token_id: entityId, token_type: tokenType }) => ({
        entityType: entityTypeOf(tokenType),
        entityId,
        operation: 'export',
        message: 'Token exported',
      })),
    ),
  EntitiesRead: (event) => {
    const { entity_type: entityType, entity_ids: ids, operation } = event.data;
    const message = `${nameOf(entityType)} ${readMessages[operation]}`;
    const read: readonly (string | undefined)[] = ids.length > 0 ? ids : [undefined];
    return entries(
      event,
      read.map((entityId) => ({ entityType, entityId, operation, message })),
    );
  },
  AccessDenied: (event) => {
    const { entity_type: entityType, entity_id: entityId } = event.data;
    const message = `${nameOf(entityType)} access denied`;
    return entries(event, [{ entityType, entityId, operation: 'denied', message }]);
  },
  AuthenticationFailed: (event) => {
    const { application_id: applicationId, session_id: sessionId } = event.data;
    return entries(event, [
      {
        entityType: sessionId === undefined ? 'application' : 'session',
        entityId: sessionId ?? applicationId,
        operation: 'authenticate',
        message: 'Authentication failed',
      },
    ]);
  },
};

/** Book-keeping of one command, told already by the events around it. */
export const unloggedEvents = [
  'ReactorStarted',
  'FingerprintClaimed',
  'FingerprintReleased',
  'FingerprintClaimVoided',
  'TransactionTokenEnlisted',
  'AuditCheckpointSigned',
] as const;
