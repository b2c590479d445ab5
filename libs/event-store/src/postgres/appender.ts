import { createBatcher } from '@token-vault/batching';
import type { GroupMember } from '../append-group.ts';
import type { AppendRequest } from '../append-request.ts';
import { EventStoreUnavailableError, KeysNotStoredError, type AppendResult } from '../port.ts';
import { createGroupedAppend } from './append-groups.ts';
import { outcomesOf, type AppendOutcome, type AppendQuery, type AppendRow } from './append-statement.ts';
import { asAppendFailure } from './append-failure.ts';
import { createLastingConnection, type ConnectionSettings } from './connection.ts';

/** Limits of one statement: a larger batch is not faster, and its failure affects more callers. */
const maxBatchAppends = 500;
const maxBatchBytes = 4 * 1024 * 1024;

/**
 * Larger appends have a connection of their own. Sending one takes several turns of the event loop, because a socket takes about 200 KB at
 * a time, and the records of all reads would wait for it.
 */
const largeBytes = 64 * 1024;

/** A flush costs the same for one append as for twenty: measured, 5 to 25 % more requests at 8 to 64 connections. */
const linger = { siblings: 4, ms: 10 };

export interface StoredAppend {
  readonly request: AppendRequest;
  readonly result: AppendResult;
}

export interface Appender {
  append(request: AppendRequest, member?: GroupMember): Promise<AppendResult>;
  isAppending(): boolean;
  /** Resolves after the appends under way. */
  close(): Promise<void>;
}

/** One append, or those of a group: they are always in the same statement. */
interface QueuedItem {
  readonly requests: readonly AppendRequest[];
  readonly bytes: number;
  /** On the clock of `performance.now()`. */
  readonly sinceMs: number;
}

export interface AppenderOptions {
  readonly appendQuery: AppendQuery;
  /** Called when a flush begins, with its number of appends. */
  readonly onFlush?: ((appends: number) => void) | undefined;
  /** Called when appends are durable. A repeated append has the position of the first one. */
  readonly onStored: (appends: readonly StoredAppend[]) => void;
}

/** Group commit: appends that arrive while a batch is under way form the next one, on a connection of its own. */
export function createAppender(settings: ConnectionSettings, options: AppenderOptions): Appender {
  const [small, large] = [createLane(settings, options), createLane(settings, options)];
  const lanes = [small, large];
  return {
    isAppending: () => lanes.some((lane) => lane.isAppending()),
    append: createGroupedAppend((requests) => {
      const bytes = requests.reduce((sum, request) => sum + request.bytes, 0);
      const lane = bytes > largeBytes ? large : small;
      return lane.add({ requests, bytes, sinceMs: performance.now() });
    }),
    async close() {
      await Promise.all(lanes.map((lane) => lane.close()));
    },
  };
}

interface Lane extends Pick<Appender, 'isAppending' | 'close'> {
  add(item: QueuedItem): Promise<AppendOutcome[]>;
}

/** One batch at a time, on one connection, which is opened by the first. */
function createLane(settings: ConnectionSettings, { appendQuery, onFlush, onStored }: AppenderOptions): Lane {
  const connection = createLastingConnection(settings);
  let isAppending = false;

  async function store(requests: readonly AppendRequest[]): Promise<AppendOutcome[]> {
    const client = await connection.client();
    onFlush?.(requests.length);
    isAppending = true;
    try {
      const { rows } = await client.query<AppendRow>(appendQuery(requests));
      const outcomes = outcomesOf(requests, rows);
      onStored(storedAmong(requests, outcomes));
      return outcomes;
    } catch (error) {
      const failure = asAppendFailure(error);
      // After this failure the state of the connection is unknown, so it is not used again.
      if (failure instanceof EventStoreUnavailableError) connection.discard(client);
      throw failure;
    } finally {
      isAppending = false;
    }
  }

  /**
   * Stores the appends together. When one append has a defect (data that the database refuses; not seen so far) or a lost key, the others
   * must not fail with it: then they are stored one by one, or group by group.
   */
  async function storeIsolated(queued: readonly QueuedItem[]): Promise<AppendOutcome[][]> {
    try {
      const outcomes = await store(queued.flatMap(({ requests }) => requests));
      if (queued.length === 1 || !(outcomes[0] instanceof KeysNotStoredError))
        return outcomesByItem(queued, outcomes);
    } catch (error) {
      const isShared = error instanceof EventStoreUnavailableError || queued.length === 1;
      if (isShared) return queued.map(({ requests }) => requests.map(() => error as Error));
    }
    const outcomes: AppendOutcome[][] = [];
    for (const one of queued) outcomes.push(...(await storeIsolated([one])));
    return outcomes;
  }

  const batcher = createBatcher<QueuedItem, AppendOutcome[]>({
    run: (queued) => storeInParts(queued, settings.statementTimeoutMs, storeIsolated),
    maxItems: maxBatchAppends,
    concurrency: 1,
    linger,
    // The contract of append_events: at most one append with an expectation for each stream and batch. Appends without one (audit) share
    // batches freely.
    keys: ({ requests }) => requests.flatMap(({ expected, stream }) => (expected === 'any' ? [] : [stream])),
  });

  return {
    isAppending: () => isAppending,
    add: (item) => batcher.add(item),
    async close() {
      await batcher.idle();
      await connection.close();
    },
  };
}

async function storeInParts(
  queued: readonly QueuedItem[],
  timeoutMs: number,
  storePart: (part: readonly QueuedItem[]) => Promise<AppendOutcome[][]>,
): Promise<AppendOutcome[][]> {
  const outcomes: AppendOutcome[][] = [];
  for (const part of bySize(queued)) {
    // While the database hangs, the queue must still shrink: an append that has waited for the whole time-out is refused without an
    // attempt.
    const isLate = performance.now() - (part[0]?.sinceMs ?? 0) > timeoutMs;
    if (isLate) outcomes.push(...part.map(({ requests }) => requests.map(waitedTooLong)));
    else outcomes.push(...(await storePart(part)));
  }
  return outcomes;
}

/** Splits a batch so that each part is within the limits. An item above the limits is a part of its own. */
function bySize(queued: readonly QueuedItem[]): QueuedItem[][] {
  const parts: QueuedItem[][] = [];
  let [bytes, appends] = [Infinity, 0];
  for (const item of queued) {
    const part = parts.at(-1);
    bytes += item.bytes;
    appends += item.requests.length;
    if (part && bytes <= maxBatchBytes && appends <= maxBatchAppends) part.push(item);
    else {
      parts.push([item]);
      bytes = item.bytes;
      appends = item.requests.length;
    }
  }
  return parts;
}

/** The outcomes of each queued item. */
function outcomesByItem(
  queued: readonly QueuedItem[],
  outcomes: readonly AppendOutcome[],
): AppendOutcome[][] {
  let from = 0;
  return queued.map(({ requests }) => outcomes.slice(from, (from += requests.length)));
}

function storedAmong(
  requests: readonly AppendRequest[],
  outcomes: readonly AppendOutcome[],
): readonly StoredAppend[] {
  return requests.flatMap((request, index) => {
    const result = outcomes[index];
    return result === undefined || result instanceof Error ? [] : [{ request, result }];
  });
}

function waitedTooLong(): EventStoreUnavailableError {
  return new EventStoreUnavailableError('the append waited too long for its turn');
}
