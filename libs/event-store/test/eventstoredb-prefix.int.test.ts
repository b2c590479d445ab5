import { randomUUID } from 'node:crypto';
import { startPosition } from '@token-vault/event-store';
import { waitUntil } from '@token-vault/test-support';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { noted } from '../src/contract-suite/test-events.ts';
import {
  collect,
  expectNothingUnhandled,
  follow,
  openOn,
  startServer,
  type TestServer,
} from './eventstoredb-fixture.ts';

// On the server of EVENTSTOREDB_SERVER where that is set.

let server: TestServer;

beforeEach(async () => {
  server = await startServer();
});
afterEach(() => server.stop());
expectNothingUnhandled();

describe('events of another application', () => {
  it('are passed over by every read, between the vault’s own and around them', async () => {
    const store = openOn(server);
    await server.writeForeignEvents(3);
    const { position } = await store.append('a', [noted('a')], 'any');
    const subscription = follow(store);
    const between = await server.writeForeignEvents(1_200);
    await store.append('b', [noted('b')], 'any');
    await server.writeForeignEvents(3);
    expect(await collect(store.readAll(startPosition))).toEqual(['a', 'b']);
    expect(await collect(store.readAll(position))).toEqual(['b']);
    await waitUntil(() => subscription.texts().length === 2);
    const resumed = follow(store, between);
    await waitUntil(() => resumed.texts().length === 1);
    expect(resumed.texts()).toEqual(['b']);
  });
});

describe('the prefix of streams', () => {
  it('lets two vaults live on one server, each with its own log', async () => {
    const [left, right] = ['left.', 'right.'].map((streamPrefix) => openOn(server, { streamPrefix }));
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
    expect(await server.streams()).toEqual(['left.a', 'right.a']);
  });

  it('is "vault." for a new log, also when another application or another vault has written to the server', async () => {
    await server.writeForeignEvents(1);
    await openOn(server, { streamPrefix: 'other.' }).append('a', [noted('a')], 'no-stream');
    await openOn(server).append('a', [noted('b')], 'no-stream');
    expect((await server.streams()).at(-1)).toBe('vault.a');
  });

  it('is missing in a log from before prefixes, and stays so', async () => {
    const { id, type, version, data, metadata } = noted('before');
    await server.write('tenant-1', [{ id, type, data, metadata: { version, ...metadata } }]);
    const store = openOn(server);
    expect(await collect(store.readStream('tenant-1'))).toEqual(['before']);
    const { position } = await store.append('tenant-1', [noted('after')], 0);
    await server.write('$stats-1', [{ id: randomUUID(), type: '$statsCollected', data: {}, metadata: {} }]);
    expect(await store.head()).toBe(position);
    expect(await server.streams()).toEqual(['tenant-1', 'tenant-1']);
    const subscription = follow(store);
    await waitUntil(() => subscription.texts().length === 2);
    expect(await collect(openOn(server).readAll(startPosition))).toEqual(['before', 'after']);
  });
});
