import type { VaultEvent } from '@token-vault/contracts';
import type { EventStore, RecordedEvent } from '@token-vault/event-store';
import type { RequestContext } from '@token-vault/operations';
import type { Fact } from './fact.ts';

/**
 * The attempts at one command: by one request after conflicts, and by the repeat of a request whose answer was lost.
 * Every attempt makes events with the same ids, so that a later one finds what an earlier one stored.
 */
export interface Attempts {
  /** The events of the decision, with the ids of the command. */
  events(facts: readonly Fact[]): VaultEvent[];
  /**
   * The event that an earlier attempt stored. Then the command is done and must not be decided again: the decision
   * would undo what others changed since. Reads the stream, newest event first, only when there may be such an attempt:
   * the request takes up one that was cut off, or it met a conflict.
   */
  stored(store: Pick<EventStore, 'readStream'>, stream: string): Promise<RecordedEvent | undefined>;
}

export function attemptsOf(
  context: Pick<RequestContext, 'event' | 'isRepeatable' | 'isTakenOver' | 'newCommand'>,
): Attempts {
  const idAt = context.newCommand();
  let mayBeStored = context.isTakenOver;
  return {
    events: (facts) => facts.map((each, index) => context.event(each, each.data, idAt(index))),

    async stored(store, stream) {
      const isLooking = mayBeStored;
      mayBeStored = context.isRepeatable;
      if (!isLooking) return undefined;
      const id = idAt(0);
      for await (const event of store.readStream(stream, { backwards: true }))
        if (event.id === id) return event;
      return undefined;
    },
  };
}
