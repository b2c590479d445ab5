import { EventStoreUnavailableError, type EventStore } from '@token-vault/event-store';

export type Fault = 'before' | 'after';

export interface FaultyStore {
  readonly store: EventStore;
  /** Called for each append: the fault it is to meet, if any. An append `after` which the connection breaks has happened. */
  decide: (stream: string) => Fault | undefined;
  /** Called before each append is made: what another writer does just then. */
  interpose: (stream: string) => Promise<void>;
}

/** A store whose connection breaks on command: the caller learns nothing of whether the append happened. */
export function createFaultyStore(inner: EventStore): FaultyStore {
  const faulty: FaultyStore = {
    decide: () => undefined,
    interpose: async () => undefined,
    store: {
      async append(stream, events, expected) {
        await faulty.interpose(stream);
        const fault = faulty.decide(stream);
        if (fault === 'before') throw new EventStoreUnavailableError('cut off before');
        const result = await inner.append(stream, events, expected);
        if (fault === 'after') throw new EventStoreUnavailableError('cut off after');
        return result;
      },
      readStream: inner.readStream.bind(inner),
      readAll: inner.readAll.bind(inner),
      subscribe: inner.subscribe.bind(inner),
      head: inner.head.bind(inner),
      hurry: inner.hurry.bind(inner),
      close: inner.close.bind(inner),
    },
  };
  return faulty;
}
