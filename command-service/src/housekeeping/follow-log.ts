import { PositionBeyondHeadError, type EventStore } from '@token-vault/event-store';
import { errorFields, type Logger } from '@token-vault/service-kit';
import type { Checkpoint } from './checkpoint.ts';
import type { Erasures } from './erasures.ts';
import { backOffMs, pause } from './pause.ts';

export interface FollowOptions {
  readonly store: EventStore;
  readonly checkpoint: Checkpoint;
  readonly erasures: Erasures;
  readonly logger: Logger;
}

/** Events without work may be read again after a restart, so the checkpoint need not follow each of them. */
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
      // After the work: what a crash undoes is the checkpoint, never a destruction.
      await checkpoint.advance(position);
      unsaved = 0;
    }
    onProgress();
  }
}

/**
 * Carries out every erasure the log has decided, from the checkpoint on, until `signal` aborts. An erasure that fails holds
 * the checkpoint and is tried again: nothing is passed over.
 */
export async function followErasures(options: FollowOptions, signal: AbortSignal): Promise<void> {
  const { checkpoint, logger } = options;
  let attempt = 0;
  while (!signal.aborted) {
    try {
      await followOnce(options, signal, () => (attempt = 0));
    } catch (error) {
      if (signal.aborted) return;
      logger.warn({ task, attempt, ...errorFields(error) }, 'the erasure of what was deleted is held up');
      // The log was restored to an earlier time: what it has decided is carried out anew, from its beginning.
      if (error instanceof PositionBeyondHeadError) await checkpoint.restart().catch(() => undefined);
    }
    await pause(backOffMs(attempt), signal);
    attempt += 1;
  }
}
