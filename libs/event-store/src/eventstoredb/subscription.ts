import type { EventRegistry } from '@token-vault/contracts';
import { untilAborted } from '../notifier.ts';
import {
  comparePositions,
  EventStoreUnavailableError,
  PositionBeyondHeadError,
  type EventBatch,
  type Position,
} from '../port.ts';
import { Connection } from './connection.ts';
import { endsSlowReader } from './errors.ts';
import { LiveLog } from './live-log.ts';
import { Progress } from './progress.ts';
import type { LogEnd } from './log-end.ts';
import { recordedEvents } from './recorded.ts';
import type { Scope } from './scope.ts';
import { watchForStall } from './stall-watch.ts';

export interface SubscriptionSource {
  readonly connectionString: string;
  readonly registry: EventRegistry;
  readonly maxBatch: number;
  /** How often the position of a silent subscription is compared with the head of the log. */
  readonly stallCheckMs: number;
  readonly scope: () => Promise<Scope>;
  /** Reads the end of the log, on a connection other than the subscription's. */
  readonly logEnd: () => Promise<LogEnd>;
}

/** The number of subscriptions in a row that may end without an event before the reader gets an error. */
const maxAttemptsWithoutEvents = 3;

/** The log after `after`, then live events, on a connection of its own: a slow reader blocks no other reader. */
export async function* follow(
  source: SubscriptionSource,
  after: Position,
  signal: AbortSignal,
): AsyncGenerator<EventBatch, void> {
  const end = await untilAborted(source.logEnd(), signal);
  if (!end || signal.aborted) return;
  if (comparePositions(after, end.last) > 0) throw new PositionBeyondHeadError(after, end.last);
  const scope = await source.scope();
  const connection = new Connection(source.connectionString);
  const progress = new Progress(source.logEnd, after, end);
  let first: EventBatch | undefined;
  if (progress.isLive) first = { events: [], position: after, isCaughtUp: true };
  try {
    for (let attempts = 0; attempts < maxAttemptsWithoutEvents; attempts++) {
      const before = progress.position;
      const failure = yield* followOnce({ source, connection, scope, progress, first }, signal);
      if (!failure) return;
      if (!endsSlowReader(failure)) throw failure;
      if (progress.position !== before) attempts = 0;
      first = undefined;
      progress.beginAgain();
    }
    throw new EventStoreUnavailableError('the server keeps ending the subscription');
  } finally {
    await connection.retire();
  }
}

interface Following {
  readonly source: SubscriptionSource;
  readonly connection: Connection;
  readonly scope: Scope;
  readonly progress: Progress;
  /** Delivered first, when the subscription has begun. */
  readonly first: EventBatch | undefined;
}

/** One subscription of the server, from the reader's position. Returns the reason of its end; undefined when `signal` aborted. */
async function* followOnce(
  { source, connection, scope, progress, first }: Following,
  signal: AbortSignal,
): AsyncGenerator<EventBatch, Error | undefined> {
  const log = new LiveLog(connection.client, scope, progress.position, source.maxBatch);
  const { logEnd, stallCheckMs: intervalMs } = source;
  const stopWatch = watchForStall({ log, progress, logEnd, intervalMs });
  try {
    if (first) yield first;
    return yield* deliver({ registry: source.registry, scope, log, progress }, signal);
  } finally {
    stopWatch();
    log.close();
  }
}

interface Delivery {
  readonly registry: EventRegistry;
  readonly scope: Scope;
  readonly log: LiveLog;
  readonly progress: Progress;
}

async function* deliver(
  { registry, scope, log, progress }: Delivery,
  signal: AbortSignal,
): AsyncGenerator<EventBatch, Error | undefined> {
  while (!signal.aborted) {
    if (!log.hasReceived) {
      if (log.failure) return log.failure;
      await log.changed.wait(signal);
      continue;
    }
    await log.gather();
    const received = log.take();
    const { events, failure } = recordedEvents(registry, scope, received.events);
    const batch = await untilAborted(progress.advance(events, failure ? undefined : received), signal);
    if (signal.aborted) break;
    if (batch) yield batch;
    if (failure) throw failure;
  }
  return undefined;
}
