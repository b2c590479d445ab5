import { createPool, keepIndexPlans } from '@token-vault/postgres';
import type { EventRegistry } from '@token-vault/contracts';
import type pg from 'pg';
import { checkAppend, checkMaxBatch, checkRead, restOf, type StreamRange } from '../append-request.ts';
import { withConsistentReads } from '../consistent-reads.ts';
import { untilAborted } from '../notifier.ts';
import { decodeEvents, type DecodedEvents } from '../codec.ts';
import { decodeFollowing, requireReached } from '../dense-log.ts';
import {
  EventStoreUnavailableError,
  type EventStore,
  type ReadAllOptions,
  type Position,
  type RecordedEvent,
  type StoredEvent,
  type SubscribeOptions,
} from '../port.ts';
import { createAppendQuery } from './append-statement.ts';
import { createAppender } from './appender.ts';
import { Head } from './head.ts';
import { clientConfig, StoreClient, type ConnectionSettings } from './connection.ts';
import {
  createStreamStarts,
  maxPosition,
  maxPageEvents,
  readOutsidePage,
  readStoredLogPage,
  readStoredLogPageBack,
  readStreamPage,
  SeenHead,
  type SeenLog,
  type StoredPage,
} from './reader.ts';
import { follow } from './subscription.ts';
import { SharedTail, type TailOptions } from './tail.ts';

export interface PostgresEventStoreOptions {
  readonly registry: EventRegistry;
  /** The database of the log. All connections use this configuration: one for appends, one for the tail, and a pool for reads. */
  readonly connection: pg.ClientConfig;
  /** The table of data keys (`id uuid primary key`) in the same database, if their inserts are flushed with the next append. */
  readonly keyTable?: string;
  /** Maximum number of connections for reads; 4 by default. */
  readonly maxReadConnections?: number;
  /** Time limit of a statement before the store counts as unavailable; 10 000 by default. */
  readonly statementTimeoutMs?: number;
  /** Recent events kept for the subscribers of this process; 2 000 by default. */
  readonly maxRecentEvents?: number;
  /** Maximum bytes of these events, as JSON; 4 MiB by default. */
  readonly maxRecentBytes?: number;
  /** How often the tail looks for events without a notification; 1 000 by default. */
  readonly pollMs?: number;
  /** Called for each flush, with its number of appends. */
  readonly onFlush?: (appends: number) => void;
}

/** The event log in a Postgres database that has `eventStoreMigrations`. Connects at its first use. */
export function createPostgresEventStore(options: PostgresEventStoreOptions): EventStore {
  const { registry } = options;
  const settings = {
    connection: options.connection,
    statementTimeoutMs: options.statementTimeoutMs ?? 10_000,
  };
  const pool = createReadPool(settings, options.maxReadConnections ?? 4);
  const head = new Head(pool);
  const appender = createAppender(settings, {
    appendQuery: createAppendQuery(options.keyTable),
    onFlush: options.onFlush,
    onStored: (appends) => {
      for (const { result } of appends) head.reach(result.position);
      sharedTail.offer(appends);
    },
  });
  const sharedTail = createSharedTail(options, {
    ...settings,
    isAppending: () => appender.isAppending(),
    onReached: (position) => head.reach(position),
  });
  let closing: Promise<void> | undefined;

  function refuseIfClosed(): void {
    if (closing) throw new EventStoreUnavailableError('the event store is closed');
  }

  async function readHead(): Promise<Position> {
    refuseIfClosed();
    return head.read();
  }

  return withConsistentReads({
    async append(...append) {
      refuseIfClosed();
      return appender.append(checkAppend(registry, append), append[3]?.member);
    },
    ...createReads({ pool, head, registry, refuseIfClosed }),
    async *subscribe(after, signal, { maxBatch = maxPageEvents }: SubscribeOptions = {}) {
      refuseIfClosed();
      checkMaxBatch(maxBatch);
      const tail = sharedTail.join();
      const source = { tail, database: pool, registry, maxBatch: Math.min(maxBatch, maxPageEvents) };
      try {
        yield* follow(source, after, signal);
      } finally {
        sharedTail.leave(tail);
      }
    },
    head: readHead,
    end: readHead,
    close() {
      sharedTail.close();
      closing ??= Promise.all([appender.close(), pool.end()]).then(() => undefined);
      return closing;
    },
  });
}

type Reads = Pick<
  EventStore,
  | 'hasDensePositions'
  | 'readAll'
  | 'readStored'
  | 'readStoredBackwards'
  | 'readStoredOutside'
  | 'readStoredStream'
  | 'readStream'
>;

function createReads({
  pool,
  head,
  registry,
  refuseIfClosed,
}: {
  readonly pool: pg.Pool;
  readonly head: Head;
  readonly registry: EventRegistry;
  readonly refuseIfClosed: () => void;
}): Reads {
  const log = { database: pool, seen: new SeenHead() };
  const readStart = createStreamStarts(log);

  function streamPages(...read: Parameters<EventStore['readStream']>): AsyncGenerator<StoredPage, void> {
    refuseIfClosed();
    return eachPage(rangePages(log, readStart, checkRead(...read)));
  }

  async function logPages(after: Position, { until, signal }: ReadAllOptions = {}) {
    refuseIfClosed();
    const end = until ?? (await untilAborted(head.read(), signal));
    const pageAfter = (page: StoredPage | undefined) =>
      end && readStoredLogPage(pool, { after: page?.end?.position ?? after, until: end });
    return { end, pages: eachPage(pageAfter, signal) };
  }

  return {
    hasDensePositions: true,
    async *readStream(...read) {
      for await (const { events } of streamPages(...read)) yield* eachDecoded(decodeEvents(registry, events));
    },
    async *readAll(after, options) {
      const { pages, end } = await logPages(after, options);
      let reached = after;
      for await (const page of pages) {
        yield* eachDecoded(decodeFollowing(registry, reached, page.events), options?.signal);
        reached = page.end?.position ?? reached;
      }
      if (end && options?.signal?.aborted !== true) requireReached(reached, end);
    },
    async *readStoredStream(...read) {
      for await (const page of streamPages(...read)) yield* page.events;
    },
    async *readStored(after, options) {
      yield* eachBatch((await logPages(after, options)).pages);
    },
    async *readStoredBackwards() {
      refuseIfClosed();
      yield* eachBatch(eachPage((page) => readStoredLogPageBack(pool, page?.end?.position ?? maxPosition)));
    },
    async *readStoredOutside() {
      refuseIfClosed();
      for (const side of ['below', 'beyond'] as const)
        yield* eachBatch(eachPage((page) => readOutsidePage(pool, side, page?.end?.position)));
    },
  };
}

function createSharedTail(
  options: PostgresEventStoreOptions,
  settings: ConnectionSettings & Pick<TailOptions, 'isAppending' | 'onReached'>,
): SharedTail {
  return new SharedTail({
    ...settings,
    registry: options.registry,
    maxRecentEvents: options.maxRecentEvents ?? 2_000,
    maxRecentBytes: options.maxRecentBytes ?? 4 * 1024 * 1024,
    pollMs: options.pollMs ?? 1_000,
  });
}

function createReadPool(settings: ConnectionSettings, max: number): pg.Pool {
  const config = clientConfig(settings);
  class ReadClient extends StoreClient {
    constructor() {
      super(config);
    }
  }
  const pool = createPool({ ...config, Client: ReadClient, max, onConnect: keepIndexPlans });
  // The pool replaces a connection that breaks while idle; an unhandled event would end the process.
  pool.on('error', () => undefined);
  return pool;
}

/** The pages of a range of a stream. The first page is read together with those of other streams. */
function rangePages(
  log: SeenLog,
  readStart: (range: StreamRange) => Promise<StoredPage>,
  range: StreamRange,
) {
  let rest: StreamRange | undefined = range;
  return (before: StoredPage | undefined): Promise<StoredPage> | undefined => {
    if (!before?.end) return readStart(range);
    rest = rest && restOf(rest, before.bytes.length, before.end.revision);
    return rest && readStreamPage(log, rest);
  };
}

/** Yields page after page; reads one page ahead. `next` gets the previous page. */
async function* eachPage(
  next: (before: StoredPage | undefined) => Promise<StoredPage> | undefined,
  signal?: AbortSignal,
): AsyncGenerator<StoredPage, void> {
  let reading: Promise<StoredPage> | undefined = next(undefined);
  while (reading) {
    const page: StoredPage | undefined = await untilAborted(reading, signal);
    if (!page) return;
    reading = page.isLast || !page.end ? undefined : next(page);
    // Awaited when the reader is done with this page. The error of a page that is never requested is ignored.
    reading?.catch(() => undefined);
    yield page;
  }
}

async function* eachBatch(pages: AsyncIterable<StoredPage>): AsyncGenerator<readonly StoredEvent[], void> {
  for await (const { events } of pages) if (events.length > 0) yield events;
}

function* eachDecoded(
  { events, failure }: DecodedEvents,
  signal?: AbortSignal,
): Generator<RecordedEvent, void> {
  for (const event of events) {
    if (signal?.aborted) return;
    yield event;
  }
  if (failure) throw failure;
}
