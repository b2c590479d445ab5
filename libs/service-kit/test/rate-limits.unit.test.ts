import { afterEach, describe, expect, it } from 'vitest';
import { hashApiKey } from '@token-vault/crypto';
import { createRateLimits, type RateLimits } from '../src/index.ts';
import { addressGroup } from '../src/http/rate-limits.ts';
import { goodKey, principalWith, startTinyApp, type TinyApp } from './tiny-app.ts';

let nowMs = 0;
let app: TinyApp | undefined;

afterEach(async () => {
  await app?.stop();
  app = undefined;
});

async function start(rateLimits: RateLimits): Promise<TinyApp> {
  const other = principalWith({ actor: { kind: 'application', id: 'other' } });
  app = await startTinyApp({
    handlers: { getToken: async () => ({ body: {} }) },
    dependencies: { rateLimits },
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
  it('above the limit get 429 and the time to wait; others and the next minute are free', async () => {
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
  it('is refused without a look-up, but for keys that were good', async () => {
    nowMs = 0;
    const { send } = await start(createRateLimits({ failuresPerMinute: 2, nowMs: () => nowMs }));
    await send('/tokens/abc');
    expect((await send('/tokens/abc', bad)).status).toBe(401);
    expect((await send('/tokens/abc', bad)).status).toBe(401);
    const refused = await send('/tokens/abc', bad);
    expect([refused.status, refused.headers['retry-after']]).toEqual([429, '60']);
    expect((await send('/tokens/abc')).status).toBe(200);
    // A key that was never seen from there is looked up all the same.
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

  it('costs no more memory than allowed, however many there are', async () => {
    const limits = createRateLimits({ failuresPerMinute: 1, maxEntries: 3, nowMs: () => 0 });
    const fail = (address: string) => limits.look(address, undefined, () => Promise.resolve(undefined));
    for (const address of ['1', '2', '3', '4']) await fail(address);
    await expect(fail('3')).rejects.toThrow('Too many failed authentications');
    // The oldest was forgotten.
    await expect(fail('1')).resolves.toBeUndefined();
  });

  it('does not keep a new good key from being found, and bounds how many keys are looked up at once', async () => {
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
    for (let count = 0; count < 10; count += 1) await limits.look('a', `bad ${count}`, find('unknown'));
    most = 0;
    const flood = Array.from({ length: 600 }, (_, index) =>
      limits.look('a', `bad key ${index}`, find('unknown')).catch((error: { code?: string }) => error.code),
    );
    const good = limits.look('a', 'a new good key', find('authenticated'));
    expect(await good).toEqual({ kind: 'authenticated' });
    expect(new Set(await Promise.all(flood))).toEqual(new Set(['rate_limited']));
    expect(most).toBeLessThanOrEqual(4);
  });
});
