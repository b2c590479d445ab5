import type { EventRegistry } from '@token-vault/contracts';
import { checkAppend, checkMaxBatch, checkRead, type StreamRange } from '../append-request.ts';
import { withConsistentReads } from '../consistent-reads.ts';
import { untilAborted } from '../notifier.ts';
import {
  EventStoreUnavailableError,
  type EventStore,
  type ReadAllOptions,
  type Position,
  type RecordedEvent,
  type StoredEvent,
  type SubscribeOptions,
} from '../port.ts';
import type { DecodedEvents } from '../codec.ts';
import { Appender } from './appender.ts';
import { checkConnectionString } from './connection.ts';
import { Reader, type Page, type StoredPage } from './reader.ts';
import { follow } from './subscription.ts';

export interface EventStoreDbOptions {
  readonly registry: EventRegistry;
  /** `esdb://…` or `esdb+discover://…`, of an EventStoreDB from 24.10 or a KurrentDB. */
  readonly connectionString: string;
  /**
   * Prefix of the vault's streams on the server, which may hold streams of other applications: letters, digits or underscores, then a dot.
   * If absent, it is found in the log: `vault.`, or no prefix if the log is older than prefixes.
   */
  readonly streamPrefix?: string | undefined;
  /** Time limit of a call before the store counts as unavailable, and twice the time limit of its wait for a turn; 10 000 by default. */
  readonly deadlineMs?: number;
  /** 256 by default. */
  readonly maxConcurrentAppends?: number;
  /** 32 by default, 64 at most. */
  readonly maxConcurrentReads?: number;
  /** Maximum bytes of data in memory for one reader at a time; 4 MiB by default. */
  readonly maxPageBytes?: number;
  /** Maximum bytes of one append; 1 000 000 by default, because servers before 25.1 refuse more than 1 MiB. */
  readonly maxAppendBytes?: number;
  /** How often the position of a silent subscription is compared with the head of the log; 5 000 ms by default. */
  readonly stallCheckMs?: number;
}

const maxConcurrentReads = 64;
const maxSubscriptionBatch = 1_000;

/**
 * The event log in EventStoreDB: the vault's streams in `$all`. Connects at its first use.
 * @throws TypeError for a connection string or prefix that cannot work.
 */
export function createEventStoreDbEventStore(options: EventStoreDbOptions): EventStore {
  const { registry, connectionString, stallCheckMs = 5_000 } = options;
  checkConnectionString(connectionString);
  const { reader, appender } = openParts(options);
  const end = new AbortController();
  let closing: Promise<void> | undefined;

  function refuseIfClosed(): void {
    if (closing) throw new EventStoreUnavailableError('the event store is closed');
  }

  return withConsistentReads({
    async append(...append) {
      refuseIfClosed();
      return appender.append(checkAppend(registry, append));
    },
    ...createReads(reader, refuseIfClosed),
    async *subscribe(after, signal, { maxBatch = maxSubscriptionBatch }: SubscribeOptions = {}) {
      refuseIfClosed();
      checkMaxBatch(maxBatch);
      const source = {
        connectionString,
        registry,
        stallCheckMs,
        maxBatch: Math.min(maxBatch, maxSubscriptionBatch),
        scope: () => reader.scope(),
        logEnd: () => reader.end(),
      };
      yield* follow(source, after, AbortSignal.any([signal, end.signal]));
    },
    async head() {
      refuseIfClosed();
      return (await reader.end()).head;
    },
    async end() {
      refuseIfClosed();
      return (await reader.end()).last;
    },
    close() {
      end.abort();
      closing ??= Promise.all([appender.close(), reader.close()]).then(() => undefined);
      return closing;
    },
  });
}

type Reads = Pick<
  EventStore,
  'hasDensePositions' | 'readAll' | 'readStored' | 'readStoredBackwards' | 'readStoredStream' | 'readStream'
>;

function createReads(reader: Reader, refuseIfClosed: () => void): Reads {
  return {
    hasDensePositions: false,
    async *readStream(...read) {
      refuseIfClosed();
      yield* eachStreamEvent(reader, checkRead(...read));
    },
    async *readAll(after, { until, signal }: ReadAllOptions = {}) {
      refuseIfClosed();
      if (signal?.aborted) return;
      const last = until ?? (await untilAborted(reader.end(), signal))?.last;
      if (last)
        yield* eachEvent((next: Page['next']) => reader.logPage(next?.position ?? after, last), signal);
    },
    async *readStoredStream(...read) {
      refuseIfClosed();
      const range = checkRead(...read);
      const pages = eachPage((rest: StreamRange | undefined) => reader.storedStreamPage(rest ?? range));
      for await (const events of pages) yield* events;
    },
    async *readStored(after, { until, signal }: ReadAllOptions = {}) {
      refuseIfClosed();
      if (signal?.aborted) return;
      const last = until ?? (await untilAborted(reader.end(), signal))?.last;
      if (last)
        yield* eachPage((next: Position | undefined) => reader.storedLogPage(next ?? after, last), signal);
    },
    async *readStoredBackwards() {
      refuseIfClosed();
      yield* eachPage((next: Position | undefined) => reader.storedLogPageBack(next));
    },
  };
}

function openParts(options: EventStoreDbOptions): { readonly reader: Reader; readonly appender: Appender } {
  const { registry, connectionString, streamPrefix, deadlineMs = 10_000 } = options;
  const connection = { connectionString, deadlineMs };
  const reader = new Reader({
    ...connection,
    registry,
    streamPrefix,
    maxConcurrentReads: Math.min(options.maxConcurrentReads ?? 32, maxConcurrentReads),
    maxPageBytes: options.maxPageBytes ?? 4 * 1024 * 1024,
  });
  const appender = new Appender({
    ...connection,
    scope: () => reader.scope(),
    maxConcurrentAppends: options.maxConcurrentAppends ?? 256,
    maxAppendBytes: options.maxAppendBytes ?? 1_000_000,
  });
  return { reader, appender };
}

const eachStreamEvent = (reader: Reader, range: StreamRange) =>
  eachEvent((rest: StreamRange | undefined) => reader.streamPage(rest ?? range));

async function* eachEvent<Next>(
  read: (next: Next | undefined) => Promise<DecodedEvents & { readonly next: Next | undefined }>,
  signal?: AbortSignal,
): AsyncGenerator<RecordedEvent, void> {
  for await (const page of readAhead(read, signal)) {
    for (const event of page.events) {
      if (signal?.aborted) return;
      yield event;
    }
    if (page.failure) throw page.failure;
  }
}

async function* eachPage<Next>(
  read: (next: Next | undefined) => Promise<StoredPage<Next>>,
  signal?: AbortSignal,
): AsyncGenerator<readonly StoredEvent[], void> {
  for await (const { events } of readAhead(read, signal)) if (events.length > 0) yield events;
}

/** Yields page after page; reads one page ahead. */
async function* readAhead<Next, Read extends { readonly next: Next | undefined }>(
  read: (next: Next | undefined) => Promise<Read>,
  signal: AbortSignal | undefined,
): AsyncGenerator<Read, void> {
  let reading: Promise<Read> | undefined = read(undefined);
  while (reading) {
    const page: Read | undefined = await untilAborted(reading, signal);
    if (!page) return;
    reading = page.next && read(page.next);
    reading?.catch(() => undefined);
    yield page;
  }
}
