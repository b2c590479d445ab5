import {
  actorIdOf,
  entityTypeOfToken,
  type DataOf,
  type EntityType,
  type LogOperation,
  type Transform,
} from '@token-vault/contracts';
import type { Handlers, Occurrence, SqlOp } from '../projection.ts';

interface Entry {
  readonly entityType: EntityType;
  readonly entityId: string | undefined;
  readonly operation: LogOperation;
  readonly message: string;
  /** What was shown. */
  readonly transform?: Transform | undefined;
  /** Where the metadata of the event does not tell it. */
  readonly request?: string;
}

type Told<Data> = Pick<Occurrence, 'metadata' | 'position' | 'ordinal'> & { readonly data: Data };

/** Refused requests may name anything as an id; no real one is longer (rules.md §3), and indexes have their limit. */
const maxIdLength = 400;

/** By code points, as ids are measured: half a pair of surrogates is no text. */
const cut = (id: string): string =>
  id.length <= maxIdLength ? id : Array.from(id).slice(0, maxIdLength).join('');

const entries = (event: Told<unknown>, found: readonly Entry[]): SqlOp[] =>
  found.map(({ entityType, entityId, operation, message, transform, request }, index) => ({
    kind: 'insert',
    table: 'entry',
    row: {
      tenant_id: event.metadata.tenant_id,
      seq: event.position,
      ordinal: event.ordinal + index,
      actor_id: actorIdOf(event.metadata),
      actor_type: event.metadata.actor.kind,
      entity_type: entityType,
      entity_id: entityId === undefined ? undefined : cut(entityId),
      operation,
      transform,
      request: event.metadata.request ?? request,
      trace_id: cut(event.metadata.trace_id),
      message,
      created_at: event.metadata.occurred_at,
    },
  }));

/** Handlers for events that tell by one property which entity they are about. */
const about =
  <Key extends string>(entityType: EntityType, idKey: Key) =>
  (operation: LogOperation, message: string) =>
  (event: Told<Readonly<Record<Key, string>>>): SqlOp[] =>
    entries(event, [{ entityType, entityId: event.data[idKey], operation, message }]);

const tenant = about('tenant', 'tenant_id');
const application = about('application', 'application_id');
const session = about('session', 'session_id');
const reactor = about('reactor', 'reactor_id');
const transaction = about('transaction', 'transaction_id');

const token =
  (operation: LogOperation, message: string) =>
  (event: Told<WrittenToken>): SqlOp[] => {
    const { token_id: entityId, token_type: tokenType, shown: transform } = event.data;
    return entries(event, [
      { entityType: entityTypeOfToken(tokenType), entityId, operation, message, transform },
    ]);
  };
interface WrittenToken {
  readonly token_id: string;
  readonly token_type: string;
  /** How the answer of the write showed it. */
  readonly shown?: Transform | undefined;
}

const readMessages = {
  read: 'retrieved',
  list: 'listed',
  search: 'found',
  use: 'used',
  deduplicate: 'met by deduplication',
} as const;

/** One entry for each token; for none, one that says so: whoever probes by lists and searches leaves a trace too. */
function tokensRead({ operation: how, tokens }: DataOf<'TokensRead'>): Entry[] {
  const operation = how === 'deduplicate' ? 'read' : how;
  if (tokens.length === 0) {
    const message = `Token ${how} found nothing`;
    return [{ entityType: 'token', entityId: undefined, operation, message }];
  }
  return tokens.map(({ token_id: entityId, token_type: tokenType, transform }) => ({
    entityType: entityTypeOfToken(tokenType),
    entityId,
    operation,
    message: `Token ${readMessages[how]}`,
    transform,
  }));
}

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
  ReactorInvoked: reactor('invoke', 'Reactor invoked'),
  ReactorSucceeded: reactor('invoke', 'Reactor succeeded'),
  ReactorFailed: reactor('invoke', 'Reactor failed'),
  WebhookDelivered: reactor('invoke', 'Reactor webhook delivered'),
  WebhookAttemptFailed: reactor('invoke', 'Reactor webhook attempt failed'),
  WebhookGivenUp: reactor('invoke', 'Reactor webhook given up'),

  TransactionOpened: transaction('create', 'Transaction created'),
  TransactionCommitted: transaction('commit', 'Transaction committed'),
  TransactionRolledBack: transaction('rollback', 'Transaction rolled back'),
  TransactionExpired: transaction('expire', 'Transaction expired'),

  TokensRead: (event) => entries(event, tokensRead(event.data)),
  TokensExported: (event) =>
    entries(
      event,
      event.data.tokens.map(({ token_id: entityId, token_type: tokenType }) => ({
        entityType: entityTypeOfToken(tokenType),
        entityId,
        operation: 'export',
        message: 'Token exported',
        transform: 'reveal',
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
    const { entity_type: entityType, entity_id: entityId, operation: request } = event.data;
    const message = `${nameOf(entityType)} access denied`;
    return entries(event, [{ entityType, entityId, operation: 'denied', message, request }]);
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
  'TransactionCounted',
  'AuditCheckpointSigned',
  'ApplicationSigned',
  'TenantSigned',
  'TokenSigned',
  'ReactorSigned',
  'ReactorInvocationSigned',
] as const;
