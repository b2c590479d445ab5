import {
  comparePositions,
  EventMissingError,
  type EventStore,
  type Position,
  type StoredEvent,
} from '@token-vault/event-store';

/**
 * The stored events after `after` up to `head`, which was the head of the log. Who sets the head back while they are read hides the newest ones.
 * @throws EventMissingError when they do not reach that head
 */
export async function* readUpTo(
  store: Pick<EventStore, 'readStored'>,
  after: Position,
  head: Position,
): AsyncGenerator<readonly StoredEvent[], void> {
  let reached = after;
  for await (const events of store.readStored(after, { until: head })) {
    yield events;
    reached = events.at(-1)?.position ?? reached;
  }
  if (comparePositions(reached, head) < 0) throw new EventMissingError(head);
}
