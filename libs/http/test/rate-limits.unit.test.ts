import { randomUUID } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, it } from 'vitest';
import type { Authentication } from '@token-vault/authentication';
import { hashApiKey } from '@token-vault/crypto';
import { waitUntil } from '@token-vault/test-support';
import { createRateLimits, type RateLimits } from '../src/index.ts';
import { addressGroup } from '../src/rate-limits.ts';
import { goodKey, principalWith, send, startTinyApp, type TinyApp, type TinyOptions } from './tiny-app.ts';

let nowMs = 0;
let app: TinyApp | undefined;

afterEach(async () => {
  await app?.stop();
  app = undefined;
});

async function start(
  rateLimits: RateLimits,
  dependencies: TinyOptions['dependencies'] = {},
): Promise<TinyApp> {
  const other = principalWith({ actor: { kind: 'application', id: 'other' } });
  app = await startTinyApp({
    handlers: { getToken: async () => ({ body: {} }), invokeProxy: async () => ({ body: {} }) },
    dependencies: { rateLimits, ...dependencies },
    authentications: {
      [goodKey]: { kind: 'authenticated', principal: principalWith(), keyHash: hashApiKey(goodKey) },
      key_pvt_other: { kind: 'authenticated', principal: other, keyHash: hashApiKey('key_pvt_other') },
    },
  });
  return app;
}

const bad = { headers: { 'SVC-API-KEY': 'key_pvt_wrong' } };
const other = { headers: { 'SVC-API-KEY': 'key_pvt_other' } };

describe('requests of one caller', () => {
  it('above the limit get 429 and the time to wait; other callers and the next minute are not limited', async () => {
    nowMs = 0;
    const { send } = await start(createRateLimits({ requestsPerMinute: 2, nowMs: () => nowMs }));
    const first = await send('/tokens/abc');
    expect(first.headers['ratelimit-policy']).toBe('"caller";q=2;w=60');
    expect(first.headers.ratelimit).toBe('"caller";r=1;t=60');
    nowMs = 20_500;
    expect((await send('/tokens/abc')).headers.ratelimit).toBe('"caller";r=0;t=40');
    const refused = await send('/tokens/abc');
    expect(refused.status).toBe(429);
    expect(refused.headers['content-type']).toBe('application/problem+json');
    expect(refused.headers['retry-after']).toBe('40');
    expect((await send('/tokens/abc', other)).status).toBe(200);
    nowMs = 60_000;
    expect((await send('/tokens/abc')).status).toBe(200);
  });

  it('are not limited when the limit is 0', async () => {
    const { send } = await start(createRateLimits({ requestsPerMinute: 0 }));
    const reply = await send('/tokens/abc');
    expect([reply.status, reply.headers.ratelimit]).toEqual([200, undefined]);
  });
});

describe('an address with too many failed authentications', () => {
  it('is refused without a look-up, except for keys that were valid before', async () => {
    nowMs = 0;
    const { send } = await start(createRateLimits({ failuresPerMinute: 2, nowMs: () => nowMs }));
    await send('/tokens/abc');
    expect((await send('/tokens/abc', bad)).status).toBe(401);
    expect((await send('/tokens/abc', bad)).status).toBe(401);
    const refused = await send('/tokens/abc', bad);
    expect([refused.status, refused.headers['retry-after']]).toEqual([429, '60']);
    expect((await send('/tokens/abc')).status).toBe(200);
    // A key that this address has not used before is still looked up.
    expect((await send('/tokens/abc', other)).status).toBe(200);
    nowMs = 60_000;
    expect((await send('/tokens/abc', bad)).status).toBe(401);
  });

  it('is known by its network in IPv6', () => {
    expect(addressGroup('2001:db8:1:2:3:4:5:6')).toBe(addressGroup('2001:db8:1:2::9'));
    expect(addressGroup('2001:db8:1:3::9')).not.toBe(addressGroup('2001:db8:1:2::9'));
    expect(addressGroup('2001:db8::9')).toBe('2001:db8:0:0');
    expect(addressGroup('::1')).toBe('0:0:0:0');
    expect(addressGroup('::ffff:10.0.0.1')).toBe('10.0.0.1');
    expect(addressGroup('10.0.0.1')).toBe('10.0.0.1');
  });

  it('uses no more memory than allowed, for any number of addresses', async () => {
    const pause = () => Promise.resolve();
    const limits = createRateLimits({ failuresPerMinute: 1, maxEntries: 3, nowMs: () => 0, pause });
    const fail = (address: string) => limits.look(address, {}, () => Promise.resolve(undefined));
    for (const address of ['1', '2', '3', '4']) await fail(address);
    await expect(fail('3')).rejects.toThrow('Too many failed authentications');
    // The oldest entry was dropped.
    await expect(fail('1')).resolves.toBeUndefined();
  });

  it('does not prevent the look-up of a new valid key, and limits the number of concurrent look-ups', async () => {
    const limits = createRateLimits({ failuresPerMinute: 10, nowMs: () => 0 });
    let running = 0;
    let most = 0;
    const find = (kind: string) => async () => {
      running += 1;
      most = Math.max(most, running);
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
      return { kind };
    };
    for (let count = 0; count < 10; count += 1)
      await limits.look('a', { key: `bad ${count}` }, find('unknown'));
    most = 0;
    const flood = Array.from({ length: 600 }, (_, index) =>
      limits
        .look('a', { key: `bad key ${index}` }, find('unknown'))
        .catch((error: { code?: string }) => error.code),
    );
    const good = limits.look('a', { key: 'a new good key' }, find('authenticated'));
    expect(await good).toEqual({ kind: 'authenticated' });
    expect(new Set(await Promise.all(flood))).toEqual(new Set(['rate_limited']));
    expect(most).toBeLessThanOrEqual(4);
  });
});

describe('requests without a key, from an address with too many failures', () => {
  const none = () => Promise.resolve(undefined);

  /** Pauses that end when the test says so. */
  function pauses() {
    const open: { readonly ms: number; readonly end: () => void }[] = [];
    const pause = (ms: number, signal: AbortSignal) =>
      new Promise<void>((resolve, reject) => {
        open.push({ ms, end: resolve });
        signal.addEventListener('abort', () => reject(new Error('aborted')));
      });
    return { open, pause };
  }

  it('wait a second for their refusal; those with a key, and the first ones, do not', async () => {
    const { open, pause } = pauses();
    const limits = createRateLimits({ failuresPerMinute: 2, nowMs: () => 0, pause });
    await limits.look('a', {}, none);
    await limits.look('a', {}, none);
    await expect(limits.look('a', { key: 'a bad key' }, none)).rejects.toThrow('Too many failed');
    expect(open).toEqual([]);
    const refused = limits.look('a', {}, none);
    await expect(limits.look('b', {}, none)).resolves.toBeUndefined();
    expect(open.map(({ ms }) => ms)).toEqual([1_000]);
    open[0]?.end();
    await expect(refused).rejects.toThrow('Too many failed');
  });

  it('end their connection at once while 500 of their address wait, or a thousand of all', async () => {
    const { open, pause } = pauses();
    const limits = createRateLimits({ failuresPerMinute: 1, nowMs: () => 0, pause });
    const refused = (address: string, client?: EventEmitter) =>
      limits.look(address, {}, none, client).catch((error: unknown) => error);
    for (const address of ['a', 'b', 'c']) await limits.look(address, {}, none);
    const clients = Array.from({ length: 500 }, () => new EventEmitter());
    const held = clients.map((client) => refused('a', client));
    expect(await refused('a')).toMatchObject({ code: 'rate_limited', endsConnection: true });
    held.push(...clients.map((client) => refused('b', client)));
    expect(await refused('c')).toMatchObject({ code: 'rate_limited', endsConnection: true });
    expect(open).toHaveLength(1_000);
    clients[0]?.emit('close');
    await Promise.all([held[0], held[500]]);
    held.push(refused('a'), refused('c'));
    await new Promise((resolve) => setImmediate(resolve));
    expect(open).toHaveLength(1_002);
    open.forEach(({ end }) => end());
    for (const refusal of held) expect(await refusal).toMatchObject({ endsConnection: false });
    expect(clients.map((client) => client.listenerCount('close'))).toEqual(clients.map(() => 0));
  });

  it('have one answer on a connection that is ended, however many the client sends', async () => {
    const limits = createRateLimits({ failuresPerMinute: 1, nowMs: () => 0, pause: pauses().pause });
    for (let count = 0; count < 501; count += 1) void limits.look('127.0.0.1', {}, none);
    const answered: number[] = [];
    const { port } = await start(limits, { onAnswered: ({ status }) => answered.push(status) });
    const socket = connect(port, '127.0.0.1');
    socket.write('GET /tokens/abc HTTP/1.1\r\nHost: vault\r\n\r\n'.repeat(20));
    const received = await text(socket);
    expect(received.match(/HTTP\/1\.1 429/g)).toHaveLength(1);
    expect(received).toContain('Connection: close');
    expect(answered).toEqual([429]);
  });
});

describe('requests that name a proxy', () => {
  const [openProxy, otherProxy] = [randomUUID(), randomUUID()];
  const key = 'key_prx_good';

  it('are looked up a few at once, with a key and without, but for a caller that was good a moment ago', async () => {
    const release = Promise.withResolvers<void>();
    const begun = new Set<string>();
    /** `openProxy` needs no key, and takes `key`. The look-ups of all other callers wait. */
    const authenticate = async (proxyId: string, given: string | undefined): Promise<Authentication> => {
      if (proxyId === openProxy && (given ?? key) === key)
        return {
          kind: 'authenticated',
          principal: principalWith({ permissions: ['token:use'] }),
          keyHash: '',
        };
      begun.add(proxyId);
      await release.promise;
      return { kind: 'unknown' };
    };
    const limits = createRateLimits({ failuresPerMinute: 2, pause: () => Promise.resolve() });
    const { port } = await start(limits, { proxyKeys: { authenticate } });
    const invoke = async (id: string, query = '') =>
      (await send(port, `/proxies/${id}/invoke${query}`)).status;
    const byKey = `?svc-proxy-key=${key}`;
    expect([await invoke(openProxy), await invoke(openProxy, byKey)]).toEqual([200, 200]);
    const flood = Array.from({ length: 20 }, () => invoke(randomUUID()));
    flood.push(invoke(otherProxy, byKey));
    await waitUntil(() => begun.size >= 4);
    expect([await invoke(openProxy), await invoke(openProxy, byKey)]).toEqual([200, 200]);
    expect(begun.size).toBe(4);
    release.resolve();
    expect((await Promise.all(flood)).sort()).toEqual([401, 401, ...Array<number>(19).fill(429)]);
    expect(begun).toContain(otherProxy);
  });
});

describe('look-ups of keys that the process does not know', () => {
  /** A find that counts how many run at once. */
  function counting() {
    const counts = { running: 0, most: 0, done: 0 };
    const find = (kind: string) => async () => {
      counts.running += 1;
      counts.most = Math.max(counts.most, counts.running);
      await new Promise((resolve) => setImmediate(resolve));
      counts.running -= 1;
      counts.done += 1;
      return { kind };
    };
    return { counts, find };
  }
  const flood = (limits: RateLimits, find: () => Promise<{ kind: string }>, size: number) =>
    Array.from({ length: size }, (_, index) =>
      limits.look('a', { key: `bad key ${index}` }, find).then(
        ({ kind } = { kind: 'none' }) => kind,
        (error: { code?: string }) => error.code,
      ),
    );

  it('are limited to a few at once from the first one on, and no valid key of the address is refused', async () => {
    const limits = createRateLimits({ failuresPerMinute: 600, nowMs: () => 0 });
    const { counts, find } = counting();
    const bad = flood(limits, find('unknown'), 1_400);
    expect(await limits.look('a', { key: 'a new good key' }, find('authenticated'))).toEqual({
      kind: 'authenticated',
    });
    const answers = await Promise.all(bad);
    expect(counts.most).toBeLessThanOrEqual(4);
    expect(answers.filter((answer) => answer === 'unknown')).toHaveLength(600);
    expect(answers.filter((answer) => answer === 'rate_limited')).toHaveLength(800);
  });

  it('are bounded also when failures are not limited', async () => {
    const limits = createRateLimits({ failuresPerMinute: 0 });
    const { counts, find } = counting();
    expect(new Set(await Promise.all(flood(limits, find('unknown'), 100)))).toEqual(new Set(['unknown']));
    expect(counts.most).toBeLessThanOrEqual(4);
  });

  it('take turns by address', async () => {
    const limits = createRateLimits({ nowMs: () => 0 });
    const { counts, find } = counting();
    const bad = flood(limits, find('unknown'), 1_000);
    await limits.look('b', { key: 'a new good key' }, find('authenticated'));
    expect(counts.done).toBeLessThan(20);
    await Promise.all(bad);
  });

  it('beyond the queue get 503, not 429', async () => {
    const limits = createRateLimits({ nowMs: () => 0 });
    const { promise, resolve } = Promise.withResolvers<{ kind: string }>();
    const bad = flood(limits, () => promise, 10_004);
    await expect(limits.look('a', { key: 'a new good key' }, () => promise)).rejects.toMatchObject({
      status: 503,
    });
    // Other addresses still wait.
    const other = limits.look('b', { key: 'a new good key' }, async () => ({ kind: 'authenticated' }));
    resolve({ kind: 'unknown' });
    expect(await other).toEqual({ kind: 'authenticated' });
    await Promise.all(bad);
  });

  it('end when the client disconnects', async () => {
    const limits = createRateLimits({ nowMs: () => 0 });
    const { promise, resolve } = Promise.withResolvers<{ kind: string }>();
    const bad = flood(limits, () => promise, 4);
    const gone = new EventEmitter();
    let isLookedUp = false;
    const find = async () => {
      isLookedUp = true;
      return { kind: 'unknown' };
    };
    const left = limits.look('a', { key: 'bad' }, find, gone);
    gone.emit('close');
    await expect(left).rejects.toThrow('the client disconnected');
    resolve({ kind: 'unknown' });
    await Promise.all(bad);
    expect([isLookedUp, gone.listenerCount('close')]).toEqual([false, 0]);
  });

  it('do not delay keys that were used a moment ago, for any number of other valid keys since', async () => {
    const limits = createRateLimits({ nowMs: () => 0, maxEntries: 3 });
    const good = async () => ({ kind: 'authenticated' });
    for (const key of ['used', 'x', 'y', 'used', 'z', 'w']) await limits.look('a', { key }, good);
    const { promise, resolve } = Promise.withResolvers<{ kind: string }>();
    const bad = flood(limits, () => promise, 20);
    expect(await limits.look('a', { key: 'used' }, good)).toEqual({ kind: 'authenticated' });
    let isFound = false;
    const oldest = limits.look('a', { key: 'y' }, good).finally(() => (isFound = true));
    await new Promise((done) => setImmediate(done));
    // The key that was used longest ago was dropped, so it waits.
    expect(isFound).toBe(false);
    resolve({ kind: 'unknown' });
    await Promise.all([oldest, ...bad]);
  });
});
