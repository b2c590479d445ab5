import type { EventRegistry } from '@token-vault/contracts';
import {
  checkAppend,
  checkMaxBatch,
  checkRead,
  isExpectationMet,
  type AppendRequest,
} from '../append-request.ts';
import { withConsistentReads } from '../consistent-reads.ts';
import { Notifier } from '../notifier.ts';
import { decodeEvent, decodeEvents } from '../codec.ts';
import { requireReached } from '../dense-log.ts';
import {
  comparePositions,
  EventStoreUnavailableError,
  noRevision,
  PositionBeyondHeadError,
  RevisionConflictError,
  startPosition,
  type AppendResult,
  type EventBatch,
  type EventStore,
  type Position,
  type ReadAllOptions,
  type RecordedEvent,
  type StoredEvent,
  type SubscribeOptions,
} from '../port.ts';

/** The data that several memory stores may share, as processes share a database. Events are kept as JSON text. */
export interface MemoryEventLog {
  readonly events: StoredEvent[];
  readonly streams: Map<string, StoredEvent[]>;
  /** Notified after each append and when a store is closed. */
  readonly appended: Notifier;
}

export function createMemoryEventLog(): MemoryEventLog {
  return { events: [], streams: new Map(), appended: new Notifier() };
}

export interface MemoryEventStoreOptions {
  readonly registry: EventRegistry;
  /** A new, empty log by default. */
  readonly log?: MemoryEventLog;
}

/** For unit tests: fulfils the whole contract, except durability. */
export function createMemoryEventStore(options: MemoryEventStoreOptions): EventStore {
  const { registry, log = createMemoryEventLog() } = options;
  let isClosed = false;

  function refuseIfClosed(): void {
    if (isClosed) throw new EventStoreUnavailableError('the event store is closed');
  }

  const adapter: Omit<EventStore, 'consistently' | 'remembered'> = {
    async append(...append) {
      refuseIfClosed();
      const result = appendTo(log, checkAppend(registry, append));
      log.appended.notifyAll();
      return result;
    },
    async *readStream(...read) {
      refuseIfClosed();
      const events = eventsOf(log, ...read);
      yield* readFrom(registry, events, 0, events.length);
    },
    ...storedReads(log, refuseIfClosed),
    async *readAll(after, { until = headOf(log), signal }: ReadAllOptions = {}) {
      refuseIfClosed();
      let reached = after;
      const [first, end] = [indexAfter(log, after), indexAfter(log, until)];
      for await (const event of readFrom(registry, log.events, first, end)) {
        if (signal?.aborted) return;
        yield event;
        reached = event.position;
      }
      if (signal?.aborted !== true) requireReached(reached, until);
    },
    async *subscribe(after, signal, { maxBatch = 1_000 }: SubscribeOptions = {}) {
      refuseIfClosed();
      checkMaxBatch(maxBatch);
      yield* follow({ log, registry, maxBatch, isClosed: () => isClosed }, after, signal);
    },
    async head() {
      refuseIfClosed();
      return headOf(log);
    },
    async end() {
      refuseIfClosed();
      return headOf(log);
    },
    async close() {
      isClosed = true;
      log.appended.notifyAll();
    },
  };
  // Reading takes no time here, and a test may still write in between.
  return withConsistentReads(adapter, 0);
}

async function* readFrom(
  registry: EventRegistry,
  events: readonly StoredEvent[],
  first: number,
  end: number,
): AsyncGenerator<RecordedEvent, void> {
  for (let index = first; index < end; index++) yield decodeEvent(registry, events[index] as StoredEvent);
}

function eventsOf(log: MemoryEventLog, ...read: Parameters<EventStore['readStream']>): StoredEvent[] {
  const { stream, from, backwards, maxCount } = checkRead(...read);
  const events = log.streams.get(stream) ?? [];
  const range = backwards ? events.slice(0, from + 1).reverse() : events.slice(from);
  return range.slice(0, maxCount);
}

type StoredReads = Pick<
  EventStore,
  'hasDensePositions' | 'readStored' | 'readStoredBackwards' | 'readStoredStream'
>;

function storedReads(log: MemoryEventLog, refuseIfClosed: () => void): StoredReads {
  return {
    hasDensePositions: true,
    async *readStoredStream(...read) {
      refuseIfClosed();
      yield* eventsOf(log, ...read);
    },
    async *readStored(after, { until = headOf(log), signal }: ReadAllOptions = {}) {
      refuseIfClosed();
      const events = log.events.slice(indexAfter(log, after), indexAfter(log, until));
      if (events.length > 0 && !signal?.aborted) yield events;
    },
    async *readStoredBackwards() {
      refuseIfClosed();
      if (log.events.length > 0) yield log.events.toReversed();
    },
  };
}

interface Subscription {
  readonly log: MemoryEventLog;
  readonly registry: EventRegistry;
  readonly maxBatch: number;
  readonly isClosed: () => boolean;
}

async function* follow(
  { log, registry, maxBatch, isClosed }: Subscription,
  after: Position,
  signal: AbortSignal,
): AsyncGenerator<EventBatch, void> {
  if (comparePositions(after, headOf(log)) > 0) throw new PositionBeyondHeadError(after, headOf(log));
  let position = after;
  let isCaughtUp = false;
  while (!signal.aborted && !isClosed()) {
    const first = indexAfter(log, position);
    const { events, failure } = decodeEvents(registry, log.events.slice(first, first + maxBatch));
    if (events.length > 0 || (!isCaughtUp && !failure)) {
      position = events.at(-1)?.position ?? position;
      isCaughtUp = position === headOf(log);
      yield { events, position, isCaughtUp };
    }
    if (failure) throw failure;
    if (position === headOf(log) && !isClosed()) await log.appended.wait(signal);
  }
}

function headOf(log: MemoryEventLog): Position {
  return log.events.at(-1)?.position ?? startPosition;
}

/** Positions are 1, 2, 3 …: the event at index i has position i + 1. */
function indexAfter(log: MemoryEventLog, position: Position): number {
  return Math.min(Number(position), log.events.length);
}

function appendTo(log: MemoryEventLog, { stream, expected, events }: AppendRequest): AppendResult {
  const stored = log.streams.get(stream) ?? [];
  const actual = stored.length - 1;
  if (!isExpectationMet(expected, actual)) {
    const first = expected === 'no-stream' ? 0 : typeof expected === 'number' ? expected + 1 : Infinity;
    const isRepeat = events.every((event, index) => stored[first + index]?.id === event.id);
    const last = stored[first + events.length - 1];
    if (isRepeat && last) return { position: last.position, revision: last.revision };
    throw new RevisionConflictError(stream, expected, stored.length === 0 ? noRevision : actual);
  }
  for (const { bytes: _bytes, ...event } of events) {
    const next = {
      ...event,
      stream,
      revision: stored.length,
      position: String(log.events.length + 1) as Position,
    };
    stored.push(next);
    log.events.push(next);
  }
  log.streams.set(stream, stored);
  return { position: headOf(log), revision: stored.length - 1 };
}
