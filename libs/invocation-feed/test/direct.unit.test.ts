import { comparePositions, EventStoreUnavailableError, type EventStore } from '@token-vault/event-store';
import { createMemoryEventLog, createMemoryEventStore } from '@token-vault/event-store/memory';
import { createDirectInvocationFeed } from '@token-vault/invocation-feed/direct';
import { waitUntil } from '@token-vault/test-support';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { DeliveryOptions, Invocation } from '../src/port.ts';
import { describeInvocationFeedContract, invocations, RunningFeed } from './contract.ts';
import { invoked, registry, testCheckpoints, toInvocation } from './invoked.ts';

function createLog() {
  const store = createMemoryEventStore({ registry, log: createMemoryEventLog() });
  onTestFinished(() => store.close());
  const checkpoints = testCheckpoints();
  const append = async (due: readonly Invocation[]) => {
    for (const invocation of due) {
      const events = [invoked(invocation), invoked(invocation, 'Noise')];
      await store.append(`invocation-${invocation.invocationId}`, events, 'any');
    }
  };
  const open = (options: DeliveryOptions) =>
    createDirectInvocationFeed({ store, checkpoints, toInvocation, ...options });
  return { store, checkpoints, append, open };
}

describeInvocationFeedContract('the direct invocation feed', async () => {
  const store = createMemoryEventStore({ registry, log: createMemoryEventLog() });
  const checkpoints = testCheckpoints();
  return {
    async publish(due) {
      for (const invocation of due) {
        await store.append(`invocation-${invocation.invocationId}`, [invoked(invocation)], 'any');
      }
    },
    open: (options) => createDirectInvocationFeed({ store, checkpoints, toInvocation, ...options }),
    drop: () => store.close(),
  };
});

it('an invocation that does not end does not delay a thousand others', async () => {
  const { append, open } = createLog();
  const [endless, ...others] = invocations(1_300) as [Invocation, ...Invocation[]];
  const gate = Promise.withResolvers<void>();
  await append([endless]);
  const feed = new RunningFeed(open, ({ invocationId }) =>
    invocationId === endless.invocationId ? gate.promise : Promise.resolve(),
  );
  await append(others);
  await waitUntil(() => feed.hasAll(others));
  gate.resolve();
});

describe('the checkpoint of the direct feed', () => {
  it('moves over a contiguous stretch of finished invocations only, and over events of no interest', async () => {
    const { store, checkpoints, append, open } = createLog();
    const due = invocations(3);
    const gates = new Map(due.map(({ invocationId }) => [invocationId, Promise.withResolvers<void>()]));
    await append(due);
    const feed = new RunningFeed(
      open,
      ({ invocationId }) => gates.get(invocationId)?.promise ?? Promise.resolve(),
    );
    await waitUntil(() => feed.hasAll(due));
    for (const { invocationId } of due.slice(1)) gates.get(invocationId)?.resolve();
    const [other] = invocations(1) as [Invocation];
    await append([other]);
    await waitUntil(() => feed.hasAll([other]));
    expect(checkpoints.saved).toEqual([]);
    gates.get(due[0]?.invocationId ?? '')?.resolve();
    const head = await store.head();
    await waitUntil(() => checkpoints.saved.at(-1) === head);
  });

  it('that cannot be saved is tried again, and does not hold deliveries', async () => {
    const { store, checkpoints, append } = createLog();
    let failures = 0;
    const save = async (position: Parameters<typeof checkpoints.save>[0]) => {
      if (failures++ < 2) throw new Error('not now');
      await checkpoints.save(position);
    };
    const open = (options: DeliveryOptions) =>
      createDirectInvocationFeed({
        store,
        toInvocation,
        checkpoints: { load: checkpoints.load, save },
        ...options,
      });
    const due = invocations(5);
    await append(due);
    const feed = new RunningFeed(open);
    const head = await store.head();
    await waitUntil(() => feed.hasAll(due) && checkpoints.saved.at(-1) === head);
    expect(checkpoints.saved.toSorted(comparePositions)).toEqual(checkpoints.saved);
  });
});

describe('the direct feed', () => {
  it('continues after an unfinished invocation, for any number of finished ones', async () => {
    const { store, checkpoints, append } = createLog();
    const due = invocations(30);
    await append(due);
    const gate = Promise.withResolvers<void>();
    const open = (options: DeliveryOptions) =>
      createDirectInvocationFeed({ store, checkpoints, toInvocation, maxUnfinished: 5, ...options });
    const first = due[0]?.invocationId;
    const feed = new RunningFeed(open, ({ invocationId }) =>
      invocationId === first ? gate.promise : Promise.resolve(),
    );
    await waitUntil(() => feed.hasAll(due));
    expect(checkpoints.saved).toEqual([]);
    gate.resolve();
    const head = await store.head();
    await waitUntil(() => checkpoints.saved.at(-1) === head);
    expect(feed.seen).toHaveLength(30);
  });

  it('pauses its subscription while too many invocations are unfinished', async () => {
    const { store, checkpoints, append } = createLog();
    const due = invocations(30);
    await append(due);
    const gates = due.map(() => Promise.withResolvers<void>());
    const open = (options: DeliveryOptions) =>
      createDirectInvocationFeed({ store, checkpoints, toInvocation, maxUnfinished: 5, ...options });
    const feed = new RunningFeed(
      open,
      ({ invocationId }) =>
        gates[due.findIndex((it) => it.invocationId === invocationId)]?.promise ?? Promise.resolve(),
    );
    await waitUntil(() => feed.seen.length >= 5);
    await new Promise(setImmediate);
    expect(feed.seen).toHaveLength(5);
    gates[3]?.resolve();
    await waitUntil(() => feed.seen.length >= 6);
    await new Promise(setImmediate);
    expect(feed.seen).toHaveLength(6);
    gates.forEach(({ resolve }) => resolve());
    await waitUntil(() => feed.hasAll(due));
    expect(feed.seen).toHaveLength(30);
  });

  it('resumes a subscription that was cut where it was, without a second delivery', async () => {
    const { store, checkpoints, append } = createLog();
    let cut = new AbortController();
    const fragile: EventStore = {
      ...store,
      async *subscribe(after, signal) {
        const mine = (cut = new AbortController());
        yield* store.subscribe(after, AbortSignal.any([signal, mine.signal]), { maxBatch: 3 });
        if (!signal.aborted) throw new EventStoreUnavailableError('cut');
      },
    };
    const gate = Promise.withResolvers<void>();
    const due = invocations(20);
    await append(due.slice(0, 10));
    const open = (options: DeliveryOptions) =>
      createDirectInvocationFeed({ store: fragile, checkpoints, toInvocation, ...options });
    const feed = new RunningFeed(open, () => gate.promise);
    await waitUntil(() => feed.hasAll(due.slice(0, 10)));
    cut.abort();
    await append(due.slice(10));
    gate.resolve();
    await waitUntil(() => feed.hasAll(due));
    expect(feed.seen).toHaveLength(20);
  });
});
