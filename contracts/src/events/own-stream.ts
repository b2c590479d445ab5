import { AlteredRecordError, type RecordKind } from '../problems.ts';
import { streams } from '../streams.ts';
import { AccessDenied, TokensRead } from './access.ts';
import { applicationEvents, consoleSessionEvents, sessionEvents } from './application.ts';
import { invocationEvents } from './invocation.ts';
import { KeysAbandoned } from './keys.ts';
import { ProxyCreated, ProxyDeleted, ProxyKeyAdded, ProxyKeyDeleted, ProxyUpdated } from './proxy.ts';
import { reactorEvents } from './reactor.ts';
import { tenantEvents } from './tenant.ts';
import { ownTokenEvents } from './token.ts';
import {
  TransactionCommitted,
  TransactionExpired,
  TransactionOpened,
  TransactionRolledBack,
  TransactionTokenEnlisted,
} from './transaction.ts';

/** The parts of an event that say which entity it is about. */
interface NamedEvent {
  readonly type: string;
  readonly data: object;
  readonly metadata: { readonly tenant_id: string };
}

interface Entity {
  readonly kind: RecordKind;
  /** The property of the event's data that holds the id. */
  readonly id: string;
  readonly streamOf: (tenantId: string, id: string) => string;
  /** The events that are about the entity. */
  readonly events: readonly { readonly type: string }[];
  /** Other events that the vault writes to its stream. They do not change the entity. */
  readonly others: readonly { readonly type: string }[];
}

const proxyEvents = [ProxyCreated, ProxyUpdated, ProxyKeyAdded, ProxyKeyDeleted, ProxyDeleted];
const transactionEvents = [
  TransactionOpened,
  TransactionTokenEnlisted,
  TransactionCommitted,
  TransactionRolledBack,
  TransactionExpired,
];

const { application, session, consoleSession, reactor, proxy, token, transaction, invocation } = streams;
const tenant = (_tenantId: string, id: string): string => streams.tenant(id);
const keys = [KeysAbandoned];
const entities: readonly Entity[] = [
  { kind: 'application', id: 'application_id', streamOf: application, events: applicationEvents, others: [] },
  { kind: 'session', id: 'session_id', streamOf: session, events: sessionEvents, others: [] },
  {
    kind: 'console session',
    id: 'session_id',
    streamOf: consoleSession,
    events: consoleSessionEvents,
    others: [],
  },
  { kind: 'reactor', id: 'reactor_id', streamOf: reactor, events: reactorEvents, others: keys },
  { kind: 'proxy', id: 'proxy_id', streamOf: proxy, events: proxyEvents, others: keys },
  { kind: 'token', id: 'token_id', streamOf: token, events: ownTokenEvents, others: keys },
  { kind: 'transaction', id: 'transaction_id', streamOf: transaction, events: transactionEvents, others: [] },
  { kind: 'tenant', id: 'tenant_id', streamOf: tenant, events: tenantEvents, others: keys },
  {
    kind: 'invocation',
    id: 'invocation_id',
    streamOf: invocation,
    events: invocationEvents,
    // The use of tokens is recorded with the claim of a run, a refusal with a delivery.
    others: [TokensRead, AccessDenied],
  },
];

const entityOf = new Map(
  entities.flatMap((entity) => entity.events.map(({ type }) => [type, entity] as const)),
);

/** The name of a stream begins with the kind of its entity. */
const prefixOf = (stream: string): string => stream.slice(0, stream.indexOf('-') + 1);
const entityIn = new Map(entities.map((entity) => [prefixOf(entity.streamOf('', '')), entity]));

interface Own {
  readonly kind: RecordKind;
  /** Undefined when the event names no entity. */
  readonly stream: string | undefined;
}

/** The stream of the entity that the event is about: a signed one, or a transaction. Undefined for an event of no such entity. */
export function ownStreamOf({ type, data, metadata }: NamedEvent): Own | undefined {
  const entity = entityOf.get(type);
  if (!entity) return undefined;
  const id = (data as Readonly<Record<string, unknown>>)[entity.id];
  const stream = typeof id === 'string' ? entity.streamOf(metadata.tenant_id, id) : undefined;
  return { kind: entity.kind, stream };
}

/** The kind of the entity that the event, or the stream, is of when the event cannot be in this stream. */
export function foreignKind(event: NamedEvent, stream: string): RecordKind | undefined {
  const own = ownStreamOf(event);
  if (own) return own.stream === stream ? undefined : own.kind;
  const entity = entityIn.get(prefixOf(stream));
  return entity?.others.every(({ type }) => type !== event.type) ? entity.kind : undefined;
}

type AlterationObserver = (kind: RecordKind, tenantId: string) => void;
const observers = new Set<AlterationObserver>();

/** `observe` is called for each record of the log that `refuseAltered` refuses in this process, until the given function is called. */
export function onAlteredLog(observe: AlterationObserver): () => void {
  observers.add(observe);
  return () => void observers.delete(observe);
}

/** Counted and logged as a bad signature is. @throws AlteredRecordError */
export function refuseAltered(kind: RecordKind, tenantId: string): never {
  for (const observe of observers) observe(kind, tenantId);
  throw new AlteredRecordError(kind);
}

/**
 * A signature says nothing of the stream that its event is in. So an event of an entity counts in the stream of this entity alone: else an
 * attacker who can write the log could copy the events of one entity over those of another, and the next change of the other would be signed in
 * the name of the first. Nor does the stream hold other events, and none is missing: else he could hide one (ADR 20).
 * @param isNext whether the event follows the one that was read before
 * @throws AlteredRecordError
 */
export function requireOwnStream(event: NamedEvent, stream: string, isNext = true): void {
  const kind = foreignKind(event, stream) ?? (isNext ? undefined : entityIn.get(prefixOf(stream))?.kind);
  if (kind) refuseAltered(kind, event.metadata.tenant_id);
}
