import { eventRegistry } from '@token-vault/contracts';
import type { EventBatch, EventStore, Position } from '@token-vault/event-store';
import { createMemoryEventStore } from '@token-vault/event-store/memory';
import { afterEach, describe, expect, it } from 'vitest';
import { gather, type GatherOptions } from '../src/runner/gather.ts';
import { Hurries } from '../src/runner/hurries.ts';
import { tokenCreated } from './events.ts';
import { eventually } from './vault.ts';

/** Longer than any test. */
const long = 600_000;
const start = '0' as Position;

let stop = new AbortController();
afterEach(() => stop.abort());

interface Gathered {
  readonly store: EventStore;
  readonly hurries: Hurries;
  readonly batches: EventBatch[];
  /** The number of events that the subscription has given, held ones included. */
  readonly taken: () => number;
  readonly ended: Promise<void>;
  /** Appends an event for each name, in one append, and waits until the subscription has given them. */
  readonly append: (...names: string[]) => Promise<Position>;
}

const nameOf = (event: EventBatch['events'][number]): string =>
  event.type === 'TokenCreated' ? event.data.token_id : event.type;
/** The names in each batch that has events. */
const names = (batches: readonly EventBatch[]) =>
  batches.flatMap(({ events }) => (events.length === 0 ? [] : [events.map(nameOf)]));

/** Follows a log in memory. An event named `urgent` cannot wait. */
function follow(
  options: Partial<GatherOptions> = {},
  after = start,
  store = createMemoryEventStore({ registry: eventRegistry }),
): Gathered {
  stop = new AbortController();
  const { signal } = stop;
  let taken = 0;
  let appended = 0;
  const counted: EventStore = {
    ...store,
    async *subscribe(...subscription) {
      for await (const batch of store.subscribe(...subscription)) {
        taken += batch.events.length;
        yield batch;
      }
    },
  };
  const { hurries = new Hurries(long), maxBatch = 100, maxHoldMs = long } = options;
  const canWait = (event: EventBatch['events'][number]) => nameOf(event) !== 'urgent';
  const batches: EventBatch[] = [];
  const ended = (async () => {
    const source = { hurries, maxBatch, maxHoldMs, canWait, store: counted, ...options };
    for await (const batch of gather(source, after, signal)) batches.push(batch);
  })();
  ended.catch(() => undefined);
  return {
    ...{ store, hurries, batches, ended },
    taken: () => taken,
    async append(...all) {
      const events = all.map((name) => tokenCreated(name));
      const { position } = await store.append('test', events, 'any');
      appended += events.length;
      await eventually(() => taken === appended);
      return position;
    },
  };
}

describe('live events that can wait', () => {
  it('are delivered with the first one that cannot', async () => {
    const { append, batches } = follow();
    await append('a');
    await append('b', 'c');
    expect(batches).toEqual([]);
    const position = await append('urgent');
    await eventually(() => names(batches).length > 0);
    expect(names(batches)).toEqual([['a', 'b', 'c', 'urgent']]);
    expect(batches[0]).toMatchObject({ position, isCaughtUp: true });
  });

  it('are delivered when the hold is over', async () => {
    const { append, batches } = follow({ maxHoldMs: 1 });
    await append('a');
    await eventually(() => names(batches).flat().length === 1);
    await append('b');
    await eventually(() => names(batches).flat().length === 2);
    expect(names(batches).flat()).toEqual(['a', 'b']);
  });

  it('are not gathered beyond the greatest batch', async () => {
    const { append, batches } = follow({ maxBatch: 3 });
    await append('a', 'b');
    await append('c', 'd');
    await append('e');
    await eventually(() => names(batches).flat().length === 5);
    expect(names(batches)).toEqual([
      ['a', 'b'],
      ['c', 'd', 'e'],
    ]);
  });

  it('are not held before the subscription has caught up', async () => {
    const store = createMemoryEventStore({ registry: eventRegistry });
    const past = ['a', 'b', 'c', 'd', 'e'].map((name) => tokenCreated(name));
    await store.append('test', past, 'any');
    const { batches, taken } = follow({ maxBatch: 2 }, start, store);
    await eventually(() => taken() === 5);
    expect(names(batches)).toEqual([
      ['a', 'b'],
      ['c', 'd'],
    ]);
  });

  it('come again, once, after the position that was delivered before an abort', async () => {
    const first = follow();
    await first.append('a', 'urgent');
    await first.append('b');
    stop.abort();
    await first.ended;
    expect(names(first.batches)).toEqual([['a', 'urgent']]);
    const next = follow({ maxHoldMs: 1 }, first.batches[0]?.position, first.store);
    await eventually(() => names(next.batches).length > 0);
    expect(names(next.batches)).toEqual([['b']]);
  });
});

describe('a reader that waits', () => {
  it('gets the held events at once', async () => {
    const { append, batches, hurries } = follow();
    hurries.hear(await append('a'));
    await eventually(() => names(batches).length === 1);
    await append('b');
    hurries.hear(await append('c'));
    await eventually(() => names(batches).length === 2);
    expect(names(batches)).toEqual([['a'], ['b', 'c']]);
  });

  it('gets an event at once that arrives after its hurry', async () => {
    const { append, batches, hurries } = follow();
    hurries.hear('2' as Position);
    await append('a');
    await append('b');
    await eventually(() => names(batches).length === 2);
    await append('c');
    await append('urgent');
    await eventually(() => names(batches).length === 3);
    expect(names(batches)).toEqual([['a'], ['b'], ['c', 'urgent']]);
  });

  it('changes nothing for events after its position', async () => {
    const { append, batches, hurries } = follow();
    const position = await append('a', 'urgent');
    await append('b');
    hurries.hear(position);
    await append('c');
    await append('urgent');
    await eventually(() => names(batches).length === 2);
    expect(names(batches)).toEqual([
      ['a', 'urgent'],
      ['b', 'c', 'urgent'],
    ]);
  });

  it('at a position that does not exist ends no holds for long', async () => {
    const hurries = new Hurries(1);
    const { append, batches } = follow({ hurries });
    await append('a');
    hurries.hear('900000000000' as Position);
    await eventually(() => names(batches).length === 1);
    await eventually(() => !hurries.isAwaitedBeyond(start));
    await append('b');
    await append('urgent');
    await eventually(() => names(batches).length === 2);
    expect(names(batches)).toEqual([['a'], ['b', 'urgent']]);
  });

  it('does not prolong the time of another one that asked for more', async () => {
    const hurries = new Hurries(200);
    hurries.hear('900' as Position);
    await eventually(() => {
      hurries.hear('1' as Position);
      return !hurries.isAwaitedBeyond('1' as Position);
    });
  });
});

/** A store whose subscription gives these batches, then ends as `last` does. */
const scripted = (batches: readonly EventBatch[], last: () => Promise<void>): EventStore => ({
  ...createMemoryEventStore({ registry: eventRegistry }),
  async *subscribe() {
    yield* batches;
    await last();
  },
});

const batch = (position: string): EventBatch => ({
  events: [],
  position: position as Position,
  isCaughtUp: true,
});

describe('a subscription', () => {
  it('without events of the vault moves the position', async () => {
    const gone = Promise.withResolvers<void>();
    const { batches } = follow({
      store: scripted([batch('3'), batch('7')], () => gone.promise),
      maxHoldMs: 1,
    });
    await eventually(() => batches.at(-1)?.position === '7');
    gone.resolve();
  });

  it('that fails during a hold delivers nothing more', async () => {
    const store = scripted([batch('3')], () => Promise.reject(new Error('gone')));
    const { batches, ended } = follow({ store });
    await expect(ended).rejects.toThrow('gone');
    expect(batches).toEqual([]);
  });

  it('that fails after a hold, while its reader is busy, fails at the next call', async () => {
    const failure = Promise.withResolvers<void>();
    const store = scripted([batch('3')], () => failure.promise);
    const options = { store, maxBatch: 10, maxHoldMs: 1, canWait: () => true, hurries: new Hurries(1) };
    const reader = gather(options, start, stop.signal);
    expect((await reader.next()).value).toEqual(batch('3'));
    failure.reject(new Error('gone'));
    // An unhandled error ends the process.
    await new Promise((resolve) => setImmediate(resolve));
    await expect(reader.next()).rejects.toThrow('gone');
  });

  it('ends when its reader leaves, also while a batch is awaited from it', async () => {
    const store = createMemoryEventStore({ registry: eventRegistry });
    await store.append('test', [tokenCreated('a')], 'any');
    const options = { store, maxBatch: 10, maxHoldMs: 1, canWait: () => true, hurries: new Hurries(1) };
    for await (const { position } of gather(options, start, stop.signal)) {
      expect(position).toBe('1');
      break;
    }
  });
});
