import { comparePositions, startPosition } from '@token-vault/event-store';
import { startEventStoreDbDouble, type EventStoreDbDouble } from '@token-vault/test-doubles/eventstoredb';
import { waitUntil } from '@token-vault/test-support';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { noted } from '../src/contract-suite/test-events.ts';
import { collect, expectNothingUnhandled, follow, openOn } from './eventstoredb-fixture.ts';

// A server has events of its own, and of other applications. These tests write its own, and count its calls, so each needs the double. Those
// that need a server alone are in eventstoredb-prefix.

let double: EventStoreDbDouble;

beforeEach(async () => {
  double = await startEventStoreDbDouble();
});
afterEach(() => double.close());
expectNothingUnhandled();

const reads = () => double.calls.get('read')?.length ?? 0;

/** Waits for this number of checks of the stall watch: each reads the end of the log. */
async function looks(count: number): Promise<void> {
  const before = reads();
  await waitUntil(() => reads() >= before + count);
}

describe('the log of an unused server', () => {
  it('is empty, though the server has written events of its own', async () => {
    expect(double.log.events.map(({ type }) => type)).toEqual(['$metadata']);
    const store = openOn(double);
    expect(await store.head()).toBe(startPosition);
    expect(await collect(store.readAll(startPosition))).toEqual([]);
  });

  it('has a subscriber that has caught up, and goes on for as long as nothing is written', async () => {
    const subscription = follow(openOn(double, { stallCheckMs: 20 }));
    await waitUntil(() => subscription.batches.length > 0);
    expect(subscription.batches[0]).toMatchObject({ events: [], isCaughtUp: true });
    await looks(10);
    const hasEnded = await Promise.race([subscription.ended.then(() => true), Promise.resolve(false)]);
    expect(hasEnded).toBe(false);
  });
});

describe('events that are not the vault’s', () => {
  it.each([
    ['of the server', () => double.writeSystemEvents(45)],
    ['of another application', () => double.writeForeignEvents(45)],
  ])('%s leave the head where it is, and no subscription counts as stalled', async (_whose, write) => {
    const store = openOn(double, { stallCheckMs: 20 });
    const { position } = await store.append('a', [noted('a')], 'any');
    const subscription = follow(store);
    await waitUntil(() => subscription.texts().length === 1);
    write();
    expect(await store.head()).toBe(position);
    await looks(10);
    await store.append('a', [noted('b')], 'any');
    await waitUntil(() => subscription.texts().length === 2);
  });

  it('are not asked for, except the newest event of the server and the first one of an application', async () => {
    const store = openOn(double);
    double.writeForeignEvents(3);
    await store.append('a', [noted('a')], 'any');
    double.writeForeignEvents(3);
    const subscription = follow(store);
    expect(await collect(store.readAll(startPosition))).toEqual(['a']);
    for (const read of [store.readStored(startPosition), store.readStoredBackwards()])
      for await (const events of read) expect(events).toHaveLength(1);
    await waitUntil(() => subscription.texts().length === 1);
    expect([...double.logReads.keys()].sort()).toEqual([
      'everything, at most 1',
      'streams ^[^$], at most 1',
      'streams vault., at most 1',
      'streams vault., at most 2',
      'streams vault., at most 500',
      'streams vault., live',
    ]);
  });

  it('are searched for a head once: the known part of the log is not searched again', async () => {
    const store = openOn(double);
    const { position } = await store.append('a', [noted('a')], 'any');
    double.writeForeignEvents(10);
    expect(await store.head()).toBe(position);
    const before = reads();
    expect(await store.head()).toBe(position);
    expect(reads()).toBe(before + 1);
    double.writeForeignEvents(1);
    expect(await store.head()).toBe(position);
    const { position: next } = await store.append('a', [noted('b')], 'any');
    double.writeForeignEvents(1);
    expect(await store.head()).toBe(next);
  });

  it('are before the end of the log, not before its head, and subscribers pass them', async () => {
    const store = openOn(double);
    const { position: head } = await store.append('a', [noted('a')], 'any');
    double.writeForeignEvents(1_500);
    const subscription = follow(store, head);
    await waitUntil(() => subscription.batches.some(({ position }) => comparePositions(position, head) > 0));
    expect(await store.head()).toBe(head);
    for (const { position } of subscription.batches)
      expect(comparePositions(position, await store.end())).toBeLessThanOrEqual(0);
  });

  it('include those of the server in a stream of the vault', async () => {
    const store = openOn(double, { stallCheckMs: 20 });
    const subscription = follow(store);
    await store.append('a', [noted('a')], 'any');
    double.log.remove('vault.a', 'any', true);
    await looks(10);
    const { position } = await store.append('b', [noted('b')], 'any');
    await waitUntil(() => subscription.texts().length === 2);
    expect(subscription.batches.at(-1)).toMatchObject({ position, isCaughtUp: true });
  });
});

describe('a prefix', () => {
  it.each(['', 'vault', '.', 'a.b.', 'a-b.', `${'a'.repeat(33)}.`])('is refused as %j', (streamPrefix) => {
    expect(() => openOn(double, { streamPrefix })).toThrow(TypeError);
  });
});
