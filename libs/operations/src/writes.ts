import { AsyncLocalStorage } from 'node:async_hooks';
import { AppendUnansweredError, type EventStore } from '@token-vault/event-store';
import { throwAfterWork } from './unavailable.ts';

interface Writes {
  /** An append was stored, or may have been. */
  mayBeDone: boolean;
}

/** The writes of the request that the current code runs for. */
const ofRequest = new AsyncLocalStorage<Writes>();

/** The event store; each append is noted for the request that makes it (`runCommand`). */
export function noteWrites(store: EventStore): EventStore {
  return {
    ...store,
    async append(...given) {
      const writes = ofRequest.getStore();
      try {
        const result = await store.append(...given);
        if (writes) writes.mayBeDone = true;
        return result;
      } catch (error) {
        if (writes && error instanceof AppendUnansweredError) writes.mayBeDone = true;
        throw error;
      }
    },
  };
}

/**
 * Runs the work of a command. An error that becomes 503 means that nothing was done (rules.md §1). So it is thrown only when none of the
 * command's appends may have been stored.
 * @throws OutcomeUnknownError when an append may have been stored; else the error of `work`
 */
export async function runCommand<Result>(work: () => Promise<Result>): Promise<Result> {
  const writes: Writes = { mayBeDone: false };
  try {
    return await ofRequest.run(writes, work);
  } catch (error) {
    if (writes.mayBeDone) throwAfterWork(error);
    throw error;
  }
}
