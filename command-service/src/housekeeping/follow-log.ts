import { PositionBeyondHeadError, type EventStore } from '@token-vault/event-store';
import { errorFields, type Logger } from '@token-vault/observability';
import type { Checkpoint } from './checkpoint.ts';
import type { Erasures } from './erasures.ts';
import { backOffMs, pause } from './pause.ts';

export interface FollowOptions {
  readonly store: EventStore;
  readonly checkpoint: Checkpoint;
  readonly erasures: Erasures;
  readonly logger: Logger;
}

/** Events without work may be read again after a restart, so the checkpoint is not moved for each of them. */
const idleEvents = 10_000;
const task = 'erasure';

async function followOnce(
  { store, checkpoint, erasures }: FollowOptions,
  signal: AbortSignal,
  onProgress: () => void,
): Promise<void> {
  let unsaved = 0;
  for await (const { events, position } of store.subscribe(await checkpoint.read(), signal)) {
    const done = await erasures.carryOut(events);
    unsaved += Math.max(1, events.length);
    if (done > 0 || unsaved >= idleEvents) {
      // The checkpoint moves after the work: a crash may undo the move, but never skips a destruction.
      await checkpoint.advance(position);
      unsaved = 0;
    }
    onProgress();
  }
}

/**
 * Carries out every erasure that the log has decided, from the checkpoint on, until `signal` aborts. A failed erasure
 * holds the checkpoint and is repeated. No erasure is skipped.
 */
export async function followErasures(options: FollowOptions, signal: AbortSignal): Promise<void> {
  const { checkpoint, logger } = options;
  let attempt = 0;
  while (!signal.aborted) {
    try {
      await followOnce(options, signal, () => (attempt = 0));
    } catch (error) {
      if (signal.aborted) return;
      logger.warn({ task, attempt, ...errorFields(error) }, 'the erasure of deleted data is delayed');
      // The log was restored to an earlier time, so all its erasures are carried out again from the beginning.
      if (error instanceof PositionBeyondHeadError) await checkpoint.restart().catch(() => undefined);
    }
    await pause(backOffMs(attempt), signal);
    attempt += 1;
  }
}
