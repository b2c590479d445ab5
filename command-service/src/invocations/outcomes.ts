import type { EventStore, Position, RecordedEvent } from '@token-vault/event-store';
import { errorFields, type Logger } from '@token-vault/service-kit';
import { setTimeout as delay } from 'node:timers/promises';
import { isOutcome, type OutcomeEvent } from './state.ts';

export interface AwaitedOutcome {
  readonly arrived: Promise<OutcomeEvent>;
  /** Call it when nobody waits any more. */
  forget(): void;
}

/** Hears how invocations end: one subscription of the process, however many callers wait. */
export interface InvocationOutcomes {
  /** Resolves when an outcome appended from now on will be heard: await it before the invocation is appended. */
  expect(invocationId: string): Promise<AwaitedOutcome>;
  close(): Promise<void>;
}

/** Emptied when it goes: a Map keeps alive what it no longer holds (ADR 13). */
interface Waiter {
  hear?: (event: OutcomeEvent) => void;
}

const retryMs = 200;

/** Subscribes at the first call of `expect`. */
export function createInvocationOutcomes(options: {
  readonly store: EventStore;
  readonly logger: Logger;
}): InvocationOutcomes {
  const { store, logger } = options;
  const waiting = new Map<string, Waiter>();
  const abort = new AbortController();
  let listening: Promise<void> | undefined;
  let following: Promise<void> | undefined;

  function deliver(event: RecordedEvent): void {
    if (!isOutcome(event)) return;
    waiting.get(event.data.invocation_id)?.hear?.(event);
  }

  async function follow(from: Position): Promise<void> {
    let position = from;
    while (!abort.signal.aborted) {
      try {
        for await (const batch of store.subscribe(position, abort.signal)) {
          batch.events.forEach(deliver);
          position = batch.position;
        }
      } catch (error) {
        if (!abort.signal.aborted) logger.warn(errorFields(error), 'outcomes of reactors are not heard');
        await delay(retryMs, undefined, { signal: abort.signal }).catch(() => undefined);
      }
    }
  }

  async function listen(): Promise<void> {
    const head = await store.head();
    following = follow(head);
  }

  return {
    async expect(invocationId) {
      listening ??= listen().catch((error: unknown) => {
        listening = undefined;
        throw error;
      });
      await listening;
      const waiter: Waiter = {};
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
