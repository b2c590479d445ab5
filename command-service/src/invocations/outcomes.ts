import { UnknownEventError } from '@token-vault/contracts';
import type { EventStore, Position, RecordedEvent } from '@token-vault/event-store';
import { errorFields, type Logger } from '@token-vault/observability';
import { setTimeout as delay } from 'node:timers/promises';
import { isOutcome, loadInvocation, type OutcomeEvent } from './state.ts';

export interface AwaitedOutcome {
  readonly arrived: Promise<OutcomeEvent>;
  /** Must be called when the caller no longer waits. */
  forget(): void;
}

/** Receives the outcomes of invocations by one subscription of the process, for any number of waiting callers. */
export interface InvocationOutcomes {
  /**
   * Resolves when the subscription will receive an outcome that is appended from now on. Await it before the
   * invocation is appended to `stream`.
   */
  expect(invocationId: string, stream: string): Promise<AwaitedOutcome>;
  close(): Promise<void>;
}

/** Its fields are cleared when the waiter is removed: a Map keeps removed values alive (ADR 13). */
interface Waiter {
  readonly stream: string;
  hear?: (event: OutcomeEvent) => void;
}

const retryMs = 200;
/** Events of a newer release may come often, so those of some milliseconds are passed together. */
const unknownPauseMs = 20;

/**
 * While a new release is rolled out, the log may hold events that this process does not know. The subscription
 * continues after them, and the streams of waiting callers are read for outcomes before them. When a stream itself
 * holds such an event, its caller waits until the deadline; other callers do not.
 */
async function passUnknown(store: EventStore, waiting: ReadonlyMap<string, Waiter>): Promise<Position> {
  const head = await store.head();
  await Promise.allSettled(
    [...waiting.values()].map(async (waiter) => {
      const { state } = await loadInvocation(store, waiter.stream);
      if (state.kind === 'over') waiter.hear?.(state.outcome);
    }),
  );
  return head;
}

interface OutcomeDependencies {
  readonly store: EventStore;
  readonly logger: Logger;
}

/** Gives the outcomes of the log after `from` to the callers that wait for them, until `signal` aborts. */
async function follow(
  { store, logger }: OutcomeDependencies,
  waiting: ReadonlyMap<string, Waiter>,
  from: Position,
  signal: AbortSignal,
): Promise<void> {
  const deliver = (event: RecordedEvent): void => {
    if (isOutcome(event)) waiting.get(event.data.invocation_id)?.hear?.(event);
  };
  let position = from;
  while (!signal.aborted) {
    try {
      for await (const batch of store.subscribe(position, signal)) {
        batch.events.forEach(deliver);
        position = batch.position;
      }
    } catch (error) {
      const isUnknown = error instanceof UnknownEventError;
      if (isUnknown) logger.debug(errorFields(error), 'an event of a newer release is passed over');
      else if (!signal.aborted) logger.warn(errorFields(error), 'outcomes of reactors are not received');
      const pauseMs = isUnknown ? unknownPauseMs : retryMs;
      await delay(pauseMs, undefined, { signal }).catch(() => undefined);
      if (isUnknown) position = await passUnknown(store, waiting).catch(() => position);
    }
  }
}

/** Subscribes at the first call of `expect`. */
export function createInvocationOutcomes(dependencies: OutcomeDependencies): InvocationOutcomes {
  const waiting = new Map<string, Waiter>();
  const abort = new AbortController();
  let listening: Promise<void> | undefined;
  let following: Promise<void> | undefined;

  async function listen(): Promise<void> {
    const head = await dependencies.store.head();
    following = follow(dependencies, waiting, head, abort.signal);
  }

  return {
    async expect(invocationId, stream) {
      listening ??= listen().catch((error: unknown) => {
        listening = undefined;
        throw error;
      });
      await listening;
      const waiter: Waiter = { stream };
      const arrived = new Promise<OutcomeEvent>((resolve) => (waiter.hear = resolve));
      waiting.set(invocationId, waiter);
      return {
        arrived,
        forget() {
          delete waiter.hear;
          waiting.delete(invocationId);
        },
      };
    },
    async close() {
      abort.abort();
      await following;
    },
  };
}
