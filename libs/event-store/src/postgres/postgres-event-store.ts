import { keepIndexPlans } from '@token-vault/batching';
import type { EventRegistry } from '@token-vault/contracts';
import pg from 'pg';
import { checkAppend, checkMaxBatch, checkRead, restOf, type StreamRange } from '../append-request.ts';
import { untilAborted } from '../bell.ts';
import {
  EventStoreUnavailableError,
  type EventStore,
  type ReadAllOptions,
  type RecordedEvent,
  type SubscribeOptions,
} from '../port.ts';
import { createAppendQuery } from './append-statement.ts';
import { createAppender } from './appender.ts';
import { clientConfig, StoreClient, type ConnectionSettings } from './connection.ts';
import {
  createStreamStarts,
  maxPageEvents,
  readHead,
  readLogPage,
  readStreamPage,
  type Page,
} from './reader.ts';
import { follow } from './subscription.ts';
import { sendHurry, SharedTail, type TailOptions } from './tail.ts';

export interface PostgresEventStoreOptions {
  readonly registry: EventRegistry;
  /** Where the log is; every connection is made with it, one for appends, one for the tail, and a pool for reads. */
  readonly connection: pg.ClientConfig;
  /** The table of data keys (`id uuid primary key`) in the same database, if their inserts are flushed with the append that follows. */
  readonly keyTable?: string;
  /** Most connections that read; 4 by default. */
  readonly maxReadConnections?: number;
  /** Longest a statement may take before the store counts as unavailable; 10 000 by default. */
  readonly statementTimeoutMs?: number;
  /** Recent events kept for the subscribers of this process; 2 000 by default. */
  readonly maxRecentEvents?: number;
  /** Their most bytes, as JSON; 4 MiB by default. */
  readonly maxRecentBytes?: number;
  /** How often the tail looks for events without having been notified; 1 000 by default. */
  readonly pollMs?: number;
  /** How long live events that can wait are held, in hope of one that cannot; 100 by default. */
  readonly maxHoldMs?: number;
  /** Told of each flush, how many appends it holds. */
  readonly onFlush?: (appends: number) => void;
}

const noneCan = (): boolean => false;

/** The event log in a Postgres database that has `eventStoreMigrations`. Connects when first used. */
export function createPostgresEventStore(options: PostgresEventStoreOptions): EventStore {
  const { registry, maxHoldMs = 100 } = options;
  const settings = {
    connection: options.connection,
    statementTimeoutMs: options.statementTimeoutMs ?? 10_000,
  };
  const pool = createReadPool(settings, options.maxReadConnections ?? 4);
  const readStart = createStreamStarts(pool, registry);
  const appender = createAppender(settings, {
    appendQuery: createAppendQuery(options.keyTable),
    onFlush: options.onFlush,
    onStored: (appends) => sharedTail.offer(appends),
  });
  const sharedTail = createSharedTail(options, { ...settings, isAppending: () => appender.isAppending() });
  let closing: Promise<void> | undefined;

  function refuseIfClosed(): void {
    if (closing) throw new EventStoreUnavailableError('the event store is closed');
  }

  return {
    async append(...append) {
      refuseIfClosed();
      return appender.append(checkAppend(registry, ...append));
    },
    async *readStream(...read) {
      refuseIfClosed();
      yield* eachEvent(rangePages(pool, registry, readStart, checkRead(...read)));
    },
    async *readAll(after, { until, signal }: ReadAllOptions = {}) {
      refuseIfClosed();
      const end = until ?? (await untilAborted(readHead(pool), signal));
      if (end)
        yield* eachEvent((page) => readLogPage(pool, registry, page?.end?.position ?? after, end), signal);
    },
    async *subscribe(after, signal, { maxBatch = maxPageEvents, canWait = noneCan }: SubscribeOptions = {}) {
      refuseIfClosed();
      checkMaxBatch(maxBatch);
      const tail = sharedTail.join();
      const batches = { maxBatch: Math.min(maxBatch, maxPageEvents), canWait, maxHoldMs };
      try {
        yield* follow({ tail, database: pool, registry, ...batches }, after, signal);
      } finally {
        sharedTail.leave(tail);
      }
    },
    async head() {
      refuseIfClosed();
      return readHead(pool);
    },
    async hurry(position) {
      refuseIfClosed();
      await sendHurry(pool, position);
    },
    close() {
      sharedTail.close();
      closing ??= Promise.all([appender.close(), pool.end()]).then(() => undefined);
      return closing;
    },
  };
}

function createSharedTail(
  options: PostgresEventStoreOptions,
  settings: ConnectionSettings & Pick<TailOptions, 'isAppending'>,
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
  // The pool makes clients of its own options, which its types do not know of.
  const Client = StoreClient as unknown as new () => pg.ClientBase;
  const pool = new pg.Pool({ ...clientConfig(settings), Client, max, onConnect: keepIndexPlans });
  // A connection that breaks while idle is replaced by the pool; unheard, the event would end the process.
  pool.on('error', () => undefined);
  return pool;
}

/** The pages of a range of a stream, the first of which is read together with those of other streams. */
function rangePages(
  pool: pg.Pool,
  registry: EventRegistry,
  readStart: (range: StreamRange) => Promise<Page>,
  range: StreamRange,
) {
  let rest: StreamRange | undefined = range;
  return (before: Page | undefined): Promise<Page> | undefined => {
    if (!before?.end) return readStart(range);
    rest = rest && restOf(rest, before.bytes.length, before.end.revision);
    return rest && readStreamPage(pool, registry, rest);
  };
}

/** The events of page after page, one page read ahead. `next` gets the page before. */
async function* eachEvent(
  next: (before: Page | undefined) => Promise<Page> | undefined,
  signal?: AbortSignal,
): AsyncGenerator<RecordedEvent, void> {
  let reading: Promise<Page> | undefined = next(undefined);
  while (reading) {
    const page: Page | undefined = await untilAborted(reading, signal);
    if (!page) return;
    reading = page.isLast || page.failure || !page.end ? undefined : next(page);
    reading?.catch(() => undefined);
    for (const event of page.events) {
      if (signal?.aborted) return;
      yield event;
    }
    if (page.failure) throw page.failure;
  }
}
