import { UnknownEventError } from '@token-vault/contracts';
import { describe, expect, it, vi } from 'vitest';
import {
  comparePositions,
  EventStoreUnavailableError,
  parsePosition,
  PositionBeyondHeadError,
} from '../port.ts';
import { newStream, runSubscription, texts, type Fixture } from './fixture.ts';
import { laterRegistry, noted, notedLater } from './test-events.ts';

/** The time limit of the port for ending a subscription. */
const endsWithin = { timeout: 1_000, interval: 5 };

export function describeSubscribing(fixture: Fixture): void {
  describe('a subscriber', () => {
    describeBatches(fixture);
    describeEnds(fixture);
    describeVersions(fixture);
    describeCuts(fixture);
  });
}

function describeBatches(fixture: Fixture): void {
  it('at the head gets an empty batch at once, then the events that any process appends', async () => {
    const after = await fixture.store.head();
    const { batches, events } = runSubscription(fixture.store, after);
    await vi.waitUntil(() => batches.length > 0);
    expect(batches).toEqual([{ events: [], position: after, isCaughtUp: true }]);
    await fixture.store.append(newStream(), [noted('a')], 'any');
    await vi.waitUntil(() => events.length === 1);
    const { position } = await fixture.open().append(newStream(), [noted('b'), noted('c')], 'any');
    await vi.waitUntil(() => events.length === 3, { timeout: 5_000 });
    expect(texts(events)).toEqual(['a', 'b', 'c']);
    expect(batches.at(-1)).toMatchObject({ position, isCaughtUp: true });
  });

  it('that is behind catches up in batches of the requested size, then gets live events', async () => {
    const after = await fixture.store.head();
    const stream = newStream();
    const past = Array.from({ length: 95 }, (_, index) => noted(`${index}`));
    await fixture.store.append(stream, past, 'any');
    const { batches, events } = runSubscription(fixture.store, after, { maxBatch: 10 });
    await vi.waitUntil(() => batches.at(-1)?.isCaughtUp, { timeout: 5_000 });
    expect(texts(events)).toEqual(past.map((event) => event.data.text));
    await fixture.store.append(stream, [noted('live')], 'any');
    await vi.waitUntil(() => events.at(-1)?.data.text === 'live', { timeout: 5_000 });
    expect(events).toHaveLength(96);
    expect(Math.max(...batches.map((batch) => batch.events.length))).toBe(10);
    expect(batches.filter((batch) => batch.events.length > 0).map((batch) => batch.position)).toEqual(
      batches.flatMap((batch) => batch.events.at(-1)?.position ?? []),
    );
  });

  it('that is slow pauses its own subscription, loses no event, and does not delay other subscriptions', async () => {
    const after = await fixture.store.head();
    const stream = newStream();
    const gate = Promise.withResolvers<void>();
    const slow = runSubscription(fixture.store, after, { maxBatch: 100, onBatch: () => gate.promise });
    const quick = runSubscription(fixture.store, after);
    await vi.waitUntil(() => slow.batches.length > 0);
    const many = Array.from({ length: 3_000 }, (_, index) => noted(`${index}`));
    for (let index = 0; index < many.length; index += 100) {
      await fixture.store.append(stream, many.slice(index, index + 100), 'any');
    }
    await vi.waitUntil(() => quick.events.length === 3_000, { timeout: 10_000 });
    expect(slow.batches).toHaveLength(1);
    gate.resolve();
    await vi.waitUntil(() => slow.events.length >= 3_000, { timeout: 10_000 });
    expect(texts(slow.events)).toEqual(many.map((event) => event.data.text));
    expect(Math.max(...slow.batches.map((batch) => batch.events.length))).toBeLessThanOrEqual(100);
  });

  it('is refused at a position beyond the head, and with an invalid batch size', async () => {
    await fixture.store.append(newStream(), [noted('a')], 'any');
    const beyond = runSubscription(fixture.store, parsePosition('9223372036854775807'));
    await expect(beyond.ended).rejects.toBeInstanceOf(PositionBeyondHeadError);
    const head = await fixture.store.head();
    expect(comparePositions(await fixture.store.end(), head)).toBeGreaterThanOrEqual(0);
    await expect(runSubscription(fixture.store, head, { maxBatch: 0 }).ended).rejects.toBeInstanceOf(
      TypeError,
    );
  });
}

function describeEnds(fixture: Fixture): void {
  it('ends within a second of its abort, while waiting for events', async () => {
    const subscription = runSubscription(fixture.store, await fixture.store.head());
    await vi.waitUntil(() => subscription.batches.length > 0);
    const hasEnded = vi.fn();
    const end = subscription.ended.then(hasEnded);
    subscription.stop();
    await vi.waitUntil(() => hasEnded.mock.calls.length > 0, endsWithin);
    await end;
  });

  it('ends within a second of its abort, while catching up', async () => {
    const after = await fixture.store.head();
    const events = Array.from({ length: 500 }, (_, index) => noted(`${index}`));
    await fixture.store.append(newStream(), events, 'any');
    const hasEnded = vi.fn();
    const subscription = runSubscription(fixture.store, after, {
      maxBatch: 1,
      onBatch: () => subscription.stop(),
    });
    const end = subscription.ended.then(hasEnded);
    await vi.waitUntil(() => hasEnded.mock.calls.length > 0, endsWithin);
    await end;
    expect(subscription.events).toHaveLength(1);
  });

  it('gets no events when it was aborted before it began', async () => {
    const aborted = fixture.store.subscribe(await fixture.store.head(), AbortSignal.abort());
    for await (const batch of aborted) expect.unreachable(`a batch at ${batch.position}`);
  });

  it('ends when its store closes', async () => {
    const store = fixture.open();
    const subscription = runSubscription(store, await store.head());
    await vi.waitUntil(() => subscription.batches.length > 0);
    await store.close();
    await subscription.ended;
    await expect(runSubscription(store, await fixture.store.head()).ended).rejects.toBeInstanceOf(
      EventStoreUnavailableError,
    );
  });
}

function describeVersions(fixture: Fixture): void {
  it('gets events in their current version', async () => {
    const after = await fixture.store.head();
    await fixture.store.append(newStream(), [noted('past')], 'any');
    const { events } = runSubscription(fixture.open(laterRegistry), after);
    await vi.waitUntil(() => events.length === 1);
    await fixture.store.append(newStream(), [noted('live')], 'any');
    await vi.waitUntil(() => events.length === 2, { timeout: 5_000 });
    expect(events.map((event) => event.data.language)).toEqual(['unknown', 'unknown']);
  });

  it('gets the events before an unknown event of a later release, then an error, live and after it subscribes again', async () => {
    const after = await fixture.store.head();
    const live = runSubscription(fixture.store, after);
    await vi.waitUntil(() => live.batches.length > 0);
    const later = fixture.open(laterRegistry);
    await fixture.store.append(newStream(), [noted('a')], 'any');
    const { position } = await later.append(newStream(), [notedLater('new')], 'any');
    await fixture.store.append(newStream(), [noted('b')], 'any');
    await expect(live.ended).rejects.toBeInstanceOf(UnknownEventError);
    expect(texts(live.events)).toEqual(['a']);
    const back = runSubscription(fixture.store, live.events.at(-1)?.position ?? after);
    await expect(back.ended).rejects.toBeInstanceOf(UnknownEventError);
    expect(back.events).toEqual([]);
    const beyond = runSubscription(fixture.store, position);
    await vi.waitUntil(() => beyond.events.length === 1);
    expect(texts(beyond.events)).toEqual(['b']);
  });
}

function describeCuts(fixture: Fixture): void {
  it('gets an error when the connection is cut, and can continue from its position', async (context) => {
    const { cutConnections } = fixture.subject;
    if (!cutConnections) return context.skip('this store has no connections');
    const store = fixture.open();
    const after = await store.head();
    const subscription = runSubscription(store, after);
    await vi.waitUntil(() => subscription.batches.length > 0);
    await store.append(newStream(), [noted('a')], 'any');
    await vi.waitUntil(() => subscription.events.length === 1);
    await cutConnections();
    await expect(subscription.ended).rejects.toBeInstanceOf(EventStoreUnavailableError);
    await fixture.open().append(newStream(), [noted('b')], 'any');
    const resumed = runSubscription(store, subscription.events[0]?.position ?? after);
    await vi.waitUntil(() => resumed.events.length === 1, { timeout: 5_000 });
    expect(texts(resumed.events)).toEqual(['b']);
  });
}
