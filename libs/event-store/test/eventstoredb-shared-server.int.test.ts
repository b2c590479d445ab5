import { parsePosition, startPosition } from '@token-vault/event-store';
import { startEventStoreDbDouble, type EventStoreDbDouble } from '@token-vault/test-doubles/eventstoredb';
import { waitUntil } from '@token-vault/test-support';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { noted } from '../src/contract-suite/test-events.ts';
import { collect, expectNothingUnhandled, follow, openOn } from './eventstoredb-fixture.ts';

// A server has events of its own, and of other applications.

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

  it('are passed over by every read, between the vault’s own and around them', async () => {
    const store = openOn(double);
    double.writeForeignEvents(3);
    const { position } = await store.append('a', [noted('a')], 'any');
    const subscription = follow(store);
    double.writeForeignEvents(1_200);
    await store.append('b', [noted('b')], 'any');
    double.writeForeignEvents(3);
    expect(await collect(store.readAll(startPosition))).toEqual(['a', 'b']);
    expect(await collect(store.readAll(position))).toEqual(['b']);
    await waitUntil(() => subscription.texts().length === 2);
    const resumed = follow(store, parsePosition(String(double.log.events.at(600)?.position)));
    await waitUntil(() => resumed.texts().length === 1);
    expect(resumed.texts()).toEqual(['b']);
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

describe('the prefix of streams', () => {
  it('lets two vaults live on one server, each with its own log', async () => {
    const [left, right] = ['left.', 'right.'].map((streamPrefix) => openOn(double, { streamPrefix }));
    if (!left || !right) throw new Error('no stores');
    const first = await left.append('a', [noted('left')], 'no-stream');
    const second = await right.append('a', [noted('right')], 'no-stream');
    expect([first.revision, second.revision]).toEqual([0, 0]);
    expect([await left.head(), await right.head()]).toEqual([first.position, second.position]);
    expect(await collect(left.readAll(startPosition))).toEqual(['left']);
    expect(await collect(right.readStream('a'))).toEqual(['right']);
    const subscriptions = [follow(left), follow(right)];
    await waitUntil(() => subscriptions.every(({ texts }) => texts().length === 1));
    expect(subscriptions.map(({ texts }) => texts())).toEqual([['left'], ['right']]);
    expect(double.log.events.slice(1).map(({ stream }) => stream)).toEqual(['left.a', 'right.a']);
  });

  it('is "vault." for a new log, also when another application or another vault has written to the server', async () => {
    double.writeForeignEvents(1);
    await openOn(double, { streamPrefix: 'other.' }).append('a', [noted('a')], 'no-stream');
    await openOn(double).append('a', [noted('b')], 'no-stream');
    expect(double.log.events.at(-1)?.stream).toBe('vault.a');
  });

  it('is missing in a log from before prefixes, and stays so', async () => {
    const { id, type, version, data, metadata } = noted('before');
    const encode = (part: object) => new TextEncoder().encode(JSON.stringify(part));
    const stored = { id, type, contentType: 'application/octet-stream' };
    double.log.append('tenant-1', 'any', [
      { ...stored, data: encode(data), metadata: encode({ version, ...metadata }) },
    ]);
    const store = openOn(double);
    expect(await collect(store.readStream('tenant-1'))).toEqual(['before']);
    const { position } = await store.append('tenant-1', [noted('after')], 0);
    double.writeSystemEvents(45);
    expect(await store.head()).toBe(position);
    expect(double.log.events[2]?.stream).toBe('tenant-1');
    const subscription = follow(store);
    await waitUntil(() => subscription.texts().length === 2);
    expect(await collect(openOn(double).readAll(startPosition))).toEqual(['before', 'after']);
  });

  it.each(['', 'vault', '.', 'a.b.', 'a-b.', `${'a'.repeat(33)}.`])('is refused as %j', (streamPrefix) => {
    expect(() => openOn(double, { streamPrefix })).toThrow(TypeError);
  });
});
