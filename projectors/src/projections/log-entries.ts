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
  /** The transform by which the token was shown. */
  readonly transform?: Transform | undefined;
  /** The request id, when the metadata of the event does not hold it. */
  readonly request?: string;
}

type Told<Data> = Pick<Occurrence, 'metadata' | 'position' | 'ordinal'> & { readonly data: Data };

/**
 * A refused request may name any text as an id. No real id is longer (rules.md §3), and index rows have a maximum
 * size.
 */
const maxIdLength = 400;

/** Cut by code points, as ids are measured. Half a surrogate pair is not valid text. */
const cut = (id: string): string =>
  id.length <= maxIdLength ? id : Array.from(id).slice(0, maxIdLength).join('');

/** Entries one after another that differ in their entity alone. */
interface Run {
  readonly entry: Entry;
  readonly ids: string[];
}

function runsOf(found: readonly Entry[]): Run[] {
  const runs: Run[] = [];
  for (const entry of found) {
    const id = entry.entityId === undefined ? undefined : cut(entry.entityId);
    const last = runs.at(-1);
    if (last && id !== undefined && isLike(last.entry, entry)) last.ids.push(id);
    else runs.push({ entry, ids: id === undefined ? [] : [id] });
  }
  return runs;
}

const isLike = (one: Entry, other: Entry): boolean =>
  one.entityId !== undefined &&
  one.entityType === other.entityType &&
  one.operation === other.operation &&
  one.message === other.message &&
  one.transform === other.transform &&
  one.request === other.request;

/** A row for each run: a page of tokens that are read alike is one row, and so takes each index once. */
const entries = (event: Told<unknown>, found: readonly Entry[]): SqlOp[] =>
  runsOf(found).map(({ entry: { entityType, operation, message, transform, request }, ids }, index) => ({
    kind: 'insert',
    table: 'entry',
    row: {
      tenant_id: event.metadata.tenant_id,
      seq: event.position,
      ordinal: event.ordinal + index,
      actor_id: actorIdOf(event.metadata),
      actor_type: event.metadata.actor.kind,
      entity_type: entityType,
      entity_id: ids.length > 1 ? undefined : ids[0],
      entity_ids: ids.length > 1 ? ids : undefined,
      size: Math.max(1, ids.length),
      operation,
      transform,
      request: event.metadata.request ?? request,
      trace_id: cut(event.metadata.trace_id),
      reason: event.metadata.reason,
      message,
      created_at: event.metadata.occurred_at,
    },
  }));

/** Makes the handler for events that name their entity by one property. */
const about =
  <Key extends string>(entityType: EntityType, idKey: Key) =>
  (operation: LogOperation, message: string) =>
  (event: Told<Readonly<Record<Key, string>>>): SqlOp[] =>
    entries(event, [{ entityType, entityId: event.data[idKey], operation, message }]);

const tenant = about('tenant', 'tenant_id');
const application = about('application', 'application_id');
/** Keys have ids since version 3 of the first event below. */
const withKey = (message: string, keyId?: string): string =>
  keyId === undefined ? message : `${message}: ${keyId}`;
const session = about('session', 'session_id');
const reactor = about('reactor', 'reactor_id');
const proxy = about('proxy', 'proxy_id');
/** The deliveries of security webhooks. */
const alert = (message: string) => (event: Told<unknown>) =>
  entries(event, [
    { entityType: 'tenant', entityId: event.metadata.tenant_id, operation: 'invoke', message },
  ]);
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
  /** The transform of the write's answer. */
  readonly shown?: Transform | undefined;
}

const readMessages = {
  read: 'retrieved',
  list: 'listed',
  search: 'found',
  use: 'used',
  deduplicate: 'met by deduplication',
} as const;

/**
 * One entry for each token. A read that showed no token gives one entry without a token, so that probing by lists and
 * searches leaves a trace. It names the total that the caller got, because a total reveals tokens that are not on the page.
 */
function tokensRead({ operation: how, tokens, found }: DataOf<'TokensRead'>): Entry[] {
  const operation = how === 'deduplicate' ? 'read' : how;
  if (tokens.length === 0) {
    const message = `Token ${how} found ${found === undefined ? 'nothing' : `${found}, showed none`}`;
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
/** The log entry names cards and bank accounts as tokens. */
const nameOf = (entity: EntityType): string =>
  capitalised(entity === 'card' || entity === 'bank' ? 'token' : entity);

/** The entry of a request that a proxy sent names its destination, because an auditor asks for it first. */
const exchange = (proxyId: string | undefined, message: string): Entry => ({
  entityType: 'proxy',
  entityId: proxyId,
  operation: 'invoke',
  message,
});

export const logHandlers: Handlers = {
  TenantCreated: tenant('create', 'Tenant created'),
  TenantUpdated: tenant('update', 'Tenant updated'),
  TenantPlanChanged: tenant('update', 'Tenant plan changed'),
  TenantDeleted: tenant('delete', 'Tenant deleted'),
  TenantWebhookSecretRotated: tenant('regenerate', 'Tenant webhook secret regenerated'),

  ApplicationCreated: application('create', 'Application created'),
  ApplicationUpdated: application('update', 'Application updated'),
  ApplicationKeyRegenerated: (event) =>
    application('regenerate', withKey('Application key regenerated', event.data.key_id))(event),
  ApplicationKeyAdded: (event) =>
    application('update', withKey('Application key added', event.data.key_id))(event),
  ApplicationKeyDeleted: (event) =>
    application('update', withKey('Application key deleted', event.data.key_id))(event),
  ApplicationDeleted: application('delete', 'Application deleted'),
  ApplicationExpired: application('expire', 'Application expired'),

  SessionOpened: session('create', 'Session created'),
  SessionAuthorized: session('authorize', 'Session authorized'),
  SessionExpired: session('expire', 'Session expired'),

  ConsoleSessionOpened: session('create', 'Console session opened'),
  ConsoleSessionEnded: session('delete', 'Console session ended'),
  ConsoleSessionExpired: session('expire', 'Console session expired'),

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
  WebhookRedeliveryRequested: reactor('invoke', 'Reactor webhook redelivery requested'),

  AlertDelivered: alert('Security webhook delivered'),
  AlertAttemptFailed: alert('Security webhook attempt failed'),
  AlertGivenUp: alert('Security webhook given up'),

  ProxyCreated: proxy('create', 'Proxy created'),
  ProxyUpdated: proxy('update', 'Proxy updated'),
  ProxyKeyAdded: (event) => proxy('update', withKey('Proxy key added', event.data.key_id))(event),
  ProxyKeyDeleted: (event) => proxy('update', withKey('Proxy key deleted', event.data.key_id))(event),
  ProxyDeleted: proxy('delete', 'Proxy deleted'),
  ProxyInvoked: (event) => {
    const { proxy_id: proxyId, key_id: keyId, method, destination } = event.data;
    const message = `Proxy invoked: ${method} ${destination}`;
    return entries(event, [exchange(proxyId, keyId === undefined ? message : `${message}, by key ${keyId}`)]);
  },
  ProxyAnswered: (event) => {
    const { status, failure, proxy_id: proxyId } = event.data;
    const answered = status === undefined ? 'Proxy failed' : `Proxy answered ${status}`;
    return entries(event, [exchange(proxyId, failure === undefined ? answered : `${answered}: ${failure}`)]);
  },

  ProjectionCommanded: ({ data, ...event }) =>
    entries({ ...event, data }, [
      {
        entityType: 'tenant',
        entityId: event.metadata.tenant_id,
        operation: 'update',
        message: `Projection ${data.projection}: ${data.action}`,
      },
    ]),

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

/** Events that record the progress of one command. The events around them are logged already. */
export const unloggedEvents = [
  'ReactorStarted',
  'ConsoleSessionUsed',
  'FingerprintClaimed',
  'FingerprintReleased',
  'FingerprintClaimVoided',
  'TokenKeysAbandoned',
  'KeysAbandoned',
  'TransactionTokenEnlisted',
  'TransactionCounted',
  'AuditCheckpointSigned',
  'ApplicationSigned',
  'TenantSigned',
  'TokenSigned',
  'ReactorSigned',
  'ReactorInvocationSigned',
] as const;
