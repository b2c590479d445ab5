import { createBatcher } from '@token-vault/batching';
import type { AppendRequest } from '../append-request.ts';
import { EventStoreUnavailableError, KeysNotStoredError, type AppendResult } from '../port.ts';
import { outcomesOf, type AppendOutcome, type AppendQuery, type AppendRow } from './append-statement.ts';
import { asUnavailable, createLastingConnection, type ConnectionSettings } from './connection.ts';

/** Bounds of one statement: above these a batch gains nothing and a failure costs more callers. */
const maxBatchAppends = 500;
const maxBatchBytes = 4 * 1024 * 1024;

/** A flush costs the same for one append as for twenty: measured, 5 to 25 % more requests at 8 to 64 connections. */
const linger = { siblings: 4, ms: 10 };

export interface StoredAppend {
  readonly request: AppendRequest;
  readonly result: AppendResult;
}

export interface Appender {
  append(request: AppendRequest): Promise<AppendResult>;
  isAppending(): boolean;
  /** Ends after the appends under way. */
  close(): Promise<void>;
}

interface QueuedAppend {
  readonly request: AppendRequest;
  /** On the clock of `performance.now()`. */
  readonly sinceMs: number;
}

export interface AppenderOptions {
  readonly appendQuery: AppendQuery;
  /** A flush begins, with so many appends. */
  readonly onFlush?: ((appends: number) => void) | undefined;
  /** Appends are durable; those repeated stand where they stood before. */
  readonly onStored: (appends: readonly StoredAppend[]) => void;
}

/** Group commit: appends that arrive while a batch is under way form the next one, on one connection of its own. */
export function createAppender(
  settings: ConnectionSettings,
  { appendQuery, onFlush, onStored }: AppenderOptions,
): Appender {
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
      const failure = asUnavailable(error);
      // Whatever the statement did, this connection is not trusted to be in step any more.
      if (failure instanceof EventStoreUnavailableError) connection.discard(client);
      throw failure;
    } finally {
      isAppending = false;
    }
  }

  /**
   * A defect in one append (never seen; the database refuses its data), or a lost key of one, must not fail the others: one by
   * one then.
   */
  async function storeApart(requests: readonly AppendRequest[]): Promise<AppendOutcome[]> {
    try {
      const outcomes = await store(requests);
      if (requests.length === 1 || !(outcomes[0] instanceof KeysNotStoredError)) return outcomes;
    } catch (error) {
      const isShared = error instanceof EventStoreUnavailableError || requests.length === 1;
      if (isShared) return requests.map(() => error as Error);
    }
    const outcomes: AppendOutcome[] = [];
    for (const request of requests) outcomes.push(...(await storeApart([request])));
    return outcomes;
  }

  async function run(queued: readonly QueuedAppend[]): Promise<AppendOutcome[]> {
    const outcomes: AppendOutcome[] = [];
    for (const part of bySize(queued)) {
      // While the database hangs, the queue must not: who has waited a whole timeout is told so, untried.
      const isLate = performance.now() - (part[0]?.sinceMs ?? 0) > settings.statementTimeoutMs;
      if (isLate) outcomes.push(...part.map(waitedTooLong));
      else outcomes.push(...(await storeApart(part.map(({ request }) => request))));
    }
    return outcomes;
  }

  const batcher = createBatcher<QueuedAppend, AppendResult>({
    run,
    maxItems: maxBatchAppends,
    concurrency: 1,
    linger,
    // The contract of append_events: one checked append a stream and batch. Unchecked ones (audit) share freely.
    key: ({ request }) => (request.expected === 'any' ? undefined : request.stream),
  });

  return {
    isAppending: () => isAppending,
    append: (request) => batcher.add({ request, sinceMs: performance.now() }),
    async close() {
      await batcher.idle();
      await connection.close();
    },
  };
}

/** Cuts a batch where `maxBatchBytes` would be passed; a larger append goes alone. */
function bySize(queued: readonly QueuedAppend[]): QueuedAppend[][] {
  const parts: QueuedAppend[][] = [];
  let bytes = Infinity;
  for (const item of queued) {
    const part = parts.at(-1);
    bytes += item.request.bytes;
    if (part && bytes <= maxBatchBytes) part.push(item);
    else {
      parts.push([item]);
      bytes = item.request.bytes;
    }
  }
  return parts;
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
