import { keyIdOf, type KeyRing } from '@token-vault/crypto';
import { EventStoreUnavailableError, type EventStore } from '@token-vault/event-store';
import { partsOf, sweptKinds } from '../../src/housekeeping/entity.ts';

export type Fault = 'before' | 'after';

export interface FaultyStore {
  readonly store: EventStore;
  /**
   * Called for each append. Gives the fault of this append, if any. With `after`, the append is stored before the
   * connection breaks.
   */
  decide: (stream: string) => Fault | undefined;
  /** Called before each append. A test makes another writer's append here. */
  interpose: (stream: string) => Promise<void>;
  /** The number of events read from streams, by the kind of the stream (`token`, `transaction`). */
  readonly eventsRead: Map<string, number>;
}

/** A store whose connection breaks on command: the caller does not learn whether the append was stored. */
export function createFaultyStore(inner: EventStore): FaultyStore {
  const faulty: FaultyStore = {
    decide: () => undefined,
    interpose: async () => undefined,
    eventsRead: new Map(),
    store: {
      async append(...append) {
        const [stream] = append;
        await faulty.interpose(stream);
        const fault = faulty.decide(stream);
        if (fault === 'before') throw new EventStoreUnavailableError('cut off before');
        const result = await inner.append(...append);
        if (fault === 'after') throw new EventStoreUnavailableError('cut off after');
        return result;
      },
      async *readStream(...read) {
        const [kind = ''] = read[0].split('-');
        for await (const event of inner.readStream(...read)) {
          faulty.eventsRead.set(kind, (faulty.eventsRead.get(kind) ?? 0) + 1);
          yield event;
        }
      },
      consistently: inner.consistently.bind(inner),
      remembered: inner.remembered.bind(inner),
      readAll: inner.readAll.bind(inner),
      readStored: inner.readStored.bind(inner),
      readStoredBackwards: inner.readStoredBackwards.bind(inner),
      readStoredStream: inner.readStoredStream.bind(inner),
      hasDensePositions: inner.hasDensePositions,
      subscribe: inner.subscribe.bind(inner),
      head: inner.head.bind(inner),
      end: inner.end.bind(inner),
      close: inner.close.bind(inner),
    },
  };
  return faulty;
}

/** A key whose event may never come ends by its own time, or is swept. */
function requireEnd(entity: string, destroyAfter: Date | undefined): void {
  if (!destroyAfter && !sweptKinds.includes(partsOf(entity).kind))
    throw new Error(`the key of ${entity} has no end`);
}

/**
 * A store and a key ring that check that each append is given the keys of its newly sealed values, unless these keys
 * are durable already. Otherwise a crash could lose the key of an acknowledged token. And that no key stays for good
 * when its append never comes.
 */
export function watchKeys(inner: EventStore, ring: KeyRing): { store: EventStore; keyRing: KeyRing } {
  const safe = new Set<string>();
  const store: EventStore = {
    ...inner,
    append(...append) {
      const [stream, events, , { keys = [] } = {}] = append;
      for (const [, key = ''] of JSON.stringify(events).matchAll(/sv1\.([\da-f-]{36})\./g)) {
        if (!safe.has(key) && !keys.includes(key)) throw new Error(`${stream} is not given the key ${key}`);
        safe.add(key);
      }
      return inner.append(...append);
    },
  };
  const keyRing: KeyRing = {
    ...ring,
    async createDataKey(request) {
      requireEnd(request.entity, request.destroyAfter);
      const made = await ring.createDataKey(request);
      if (request.durability === 'own') safe.add(made.key.id);
      return made;
    },
    async sealNew(context, value, options) {
      requireEnd(context.entity, options?.destroyAfter);
      const sealed = await ring.sealNew(context, value, options);
      if (options?.durability === 'own') safe.add(keyIdOf(sealed));
      return sealed;
    },
  };
  return { store, keyRing };
}
