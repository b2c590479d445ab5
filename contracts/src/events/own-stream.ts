import { AlteredRecordError } from '../problems.ts';
import type { Statement } from '../statements.ts';
import { streams } from '../streams.ts';
import { applicationEvents, consoleSessionEvents, sessionEvents } from './application.ts';
import { ProxyCreated, ProxyDeleted, ProxyKeyAdded, ProxyKeyDeleted, ProxyUpdated } from './proxy.ts';
import { reactorEvents } from './reactor.ts';
import {
  TokenCreated,
  TokenCvcPurged,
  TokenDeleted,
  TokenExpired,
  TokenSigned,
  TokenUpdated,
} from './token.ts';

/** The parts of an event that say which entity it is about. */
interface NamedEvent {
  readonly type: string;
  readonly data: object;
  readonly metadata: { readonly tenant_id: string };
}

interface Entity {
  readonly kind: Statement['kind'];
  /** The property of the event's data that holds the id. */
  readonly id: string;
  readonly streamOf: (tenantId: string, id: string) => string;
  readonly events: readonly { readonly type: string }[];
}

const proxyEvents = [ProxyCreated, ProxyUpdated, ProxyKeyAdded, ProxyKeyDeleted, ProxyDeleted];
const tokenEvents = [TokenCreated, TokenUpdated, TokenSigned, TokenDeleted, TokenExpired, TokenCvcPurged];

const entities: readonly Entity[] = [
  { kind: 'application', id: 'application_id', streamOf: streams.application, events: applicationEvents },
  { kind: 'session', id: 'session_id', streamOf: streams.session, events: sessionEvents },
  {
    kind: 'console session',
    id: 'session_id',
    streamOf: streams.consoleSession,
    events: consoleSessionEvents,
  },
  { kind: 'reactor', id: 'reactor_id', streamOf: streams.reactor, events: reactorEvents },
  { kind: 'proxy', id: 'proxy_id', streamOf: streams.proxy, events: proxyEvents },
  { kind: 'token', id: 'token_id', streamOf: streams.token, events: tokenEvents },
];

const entityOf = new Map(
  entities.flatMap((entity) => entity.events.map(({ type }) => [type, entity] as const)),
);

interface Own {
  readonly kind: Statement['kind'];
  /** Undefined when the event names no entity. */
  readonly stream: string | undefined;
}

/** The stream of the signed entity that the event is about. Undefined for an event of no such entity. */
export function ownStreamOf({ type, data, metadata }: NamedEvent): Own | undefined {
  const entity = entityOf.get(type);
  if (!entity) return undefined;
  const id = (data as Readonly<Record<string, unknown>>)[entity.id];
  const stream = typeof id === 'string' ? entity.streamOf(metadata.tenant_id, id) : undefined;
  return { kind: entity.kind, stream };
}

type ForeignEventObserver = (kind: Statement['kind'], tenantId: string) => void;
const observers = new Set<ForeignEventObserver>();

/** `observe` is called for each event that `requireOwnStream` refuses in this process. */
export const onForeignEvent = (observe: ForeignEventObserver): unknown => observers.add(observe);

/**
 * A signature says nothing of the stream that its event is in. So an event of a signed entity counts in the stream of this entity alone: else an
 * attacker who can write the log could copy the events of one entity over those of another, and the next change of the other would be signed in
 * the name of the first (ADR 20). @throws AlteredRecordError
 */
export function requireOwnStream(event: NamedEvent, stream: string): void {
  const own = ownStreamOf(event);
  if (!own || own.stream === stream) return;
  for (const observe of observers) observe(own.kind, event.metadata.tenant_id);
  throw new AlteredRecordError(own.kind);
}
