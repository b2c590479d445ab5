import type { EventRegistry } from '@token-vault/contracts';
import { untilAborted } from '../bell.ts';
import { comparePositions, PositionBeyondHeadError, type EventBatch, type Position } from '../port.ts';
import { Connection } from './connection.ts';
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
  /** How often a subscription that hears nothing is compared with the head of the log. */
  readonly stallCheckMs: number;
  readonly scope: () => Promise<Scope>;
  /** Reads the end of the log, on another connection than the subscription's. */
  readonly logEnd: () => Promise<LogEnd>;
}

/** The log after `after`, then live, on a connection of its own: a slow reader holds nobody else. */
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
  const log = new LiveLog(connection.client, scope, after, source.maxBatch);
  const progress = new Progress(source.logEnd, after, end);
  const stopWatch = watchForStall({ log, progress, logEnd: source.logEnd, intervalMs: source.stallCheckMs });
  try {
    if (progress.isLive) yield { events: [], position: after, isCaughtUp: true };
    yield* deliver({ registry: source.registry, scope, log, progress }, signal);
  } finally {
    stopWatch();
    log.close();
    await connection.retire();
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
): AsyncGenerator<EventBatch, void> {
  while (!signal.aborted) {
    if (!log.hasReceived) {
      if (log.failure) throw log.failure;
      await log.bell.wait(signal);
      continue;
    }
    await log.gather();
    const received = log.take();
    const { events, failure } = recordedEvents(registry, scope, received.events);
    const batch = await untilAborted(progress.advance(events, failure ? undefined : received), signal);
    if (signal.aborted) return;
    if (batch) yield batch;
    if (failure) throw failure;
  }
}
