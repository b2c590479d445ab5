import { requireOwnStream } from '@token-vault/contracts';
import type { EventStore, ReadStreamOptions, RecordedEvent } from './port.ts';

/** The events of an entity, each checked to be of this entity and to follow the one before it (ADR 20). @throws AlteredRecordError */
export async function* readEntity(
  store: Pick<EventStore, 'readStream'>,
  stream: string,
  options: ReadStreamOptions = {},
): AsyncGenerator<RecordedEvent, void> {
  const { from, backwards = false } = options;
  let next = from ?? (backwards ? undefined : 0);
  for await (const event of store.readStream(stream, options)) {
    requireOwnStream(event, stream, event.revision === (next ?? event.revision));
    next = event.revision + (backwards ? -1 : 1);
    yield event;
  }
}
