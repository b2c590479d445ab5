import { waitUntil } from '@token-vault/test-support';
import type { EgressFetch } from '@token-vault/egress';
import { afterEach, describe, expect, it } from 'vitest';
import type { HostCalls, SandboxPoolOptions } from '../src/sandbox/index.ts';
import { createTestPool, handler, type TestPool } from './sandbox-pool-fixture.ts';

const open: TestPool[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((test) => test.close()));
});

async function pool(options?: SandboxPoolOptions): Promise<TestPool> {
  const test = await createTestPool(options);
  open.push(test);
  return test;
}

/** Calls that are answered when `answer` is called. */
function network(): {
  readonly hostCalls: HostCalls;
  readonly asked: () => number;
  readonly answer: () => void;
} {
  const answered = Promise.withResolvers<undefined>();
  let asked = 0;
  const fetch: EgressFetch = async ({ signal }) => {
    asked += 1;
    const aborted = new Promise((_resolve, reject) =>
      signal?.addEventListener('abort', () => reject(new Error('aborted'))),
    );
    await Promise.race([answered.promise, aborted]);
    return {
      status: 200,
      statusText: 'OK',
      url: 'https://slow.example/',
      redirected: false,
      headers: [],
      body: Buffer.from('ok'),
    };
  };
  return { hostCalls: { fetch }, asked: () => asked, answer: () => answered.resolve(undefined) };
}

const trivial = handler('return { raw: 1 };');
const waits = handler("await fetch('https://slow.example/'); return { raw: 'answered' };");
const succeeded = (count: number): string[] => Array.from({ length: count }, () => 'succeeded');
/** As long as a busy machine needs. */
const inTime = { timeout: 60_000, timeoutMs: 60_000 };
const endless = { timeoutMs: 600_000 };
const unlimited = { cpuMs: 600_000 };

describe.skipIf(process.platform !== 'linux')('runs that wait for the network', () => {
  it('leave their CPU places: a tenant has more of them than places, and another tenant runs beside 200', async () => {
    const test = await pool({ maxChildren: 4, maxRunsPerTenant: 8 });
    const { hostCalls, answer } = network();
    const settings = { tenantId: 'mallory', hostCalls, ...endless };
    const all = Array.from({ length: 200 }, () => test.run(waits, settings));
    await expect.poll(() => test.pool.stats().waiting, inTime).toBe(8);
    for (const tenantId of ['alice', 'bob', 'carol', 'alice'])
      expect(await test.run(trivial, { tenantId })).toMatchObject({ kind: 'succeeded' });
    const waitingAndQueued = () => {
      const { waiting, queued } = test.pool.stats();
      return { waiting, queued };
    };
    // A process that wakes for a moment, for its own work, does not count as waiting until it is still again.
    await expect.poll(waitingAndQueued, inTime).toEqual({ waiting: 8, queued: 192 });
    expect(test.pool.stats().children).toBeLessThanOrEqual(8 + 4);
    answer();
    expect((await Promise.all(all)).map(({ kind }) => kind)).toEqual(succeeded(200));
    // Idle processes have CPU places. Those beyond them end.
    await expect.poll(() => test.pool.stats().children, inTime).toBeLessThanOrEqual(4);
  });

  it('take a place again when they continue, and leave it again', async () => {
    const test = await pool({ maxChildren: 2, limits: unlimited });
    const hostCalls: HostCalls = { fetch: () => new Promise(() => undefined) };
    // The loop and the pause each last longer than the sandbox takes to notice them: it measures every 25 ms, and needs several equal results.
    const alternates = handler(`fetch('https://slow.example/').catch(() => undefined);
      for (;;) {
        const until = Date.now() + 1_500;
        while (Date.now() < until);
        await new Promise((resolve) => setTimeout(resolve, 3_000));
      }`);
    const run = test.run(alternates, { hostCalls, ...endless });
    for (const waiting of [1, 0, 1, 0]) await waitUntil(() => test.pool.stats().waiting === waiting, inTime);
    expect(test.pool.stats().busy).toBe(1);
    await test.close();
    expect((await run).kind).toBe('killed');
  });

  it('are distinguished from loops with an open call, also when they get no core', async () => {
    const test = await pool({ maxChildren: 8 });
    const hostCalls: HostCalls = { fetch: () => new Promise(() => undefined) };
    const loops = handler("fetch('https://slow.example/').catch(() => undefined); await 0; for (;;);");
    const settings = { tenantId: 'mallory', hostCalls, timeoutMs: 10_000 };
    const all = Array.from({ length: 8 }, () => test.run(loops, settings));
    let mostBusy = 0;
    let mostWaiting = 0;
    const look = setInterval(() => {
      const { busy, waiting } = test.pool.stats();
      [mostBusy, mostWaiting] = [Math.max(mostBusy, busy), Math.max(mostWaiting, waiting)];
    }, 5);
    expect((await Promise.all(all)).map(({ kind }) => kind)).toEqual(Array.from(all, () => 'timed-out'));
    clearInterval(look);
    expect({ mostBusy, mostWaiting }).toEqual({ mostBusy: 4, mostWaiting: 0 });
  });

  it('that all continue at once as loops do not prevent the start of another tenant’s run', async () => {
    const test = await pool({ maxChildren: 2, maxRunsPerTenant: 6, spares: 1, limits: unlimited });
    const { hostCalls, answer } = network();
    const turns = handler("await fetch('https://slow.example/'); for (;;);");
    const settings = { tenantId: 'mallory', hostCalls, ...endless };
    const all = Array.from({ length: 6 }, () => test.run(turns, settings));
    await expect.poll(() => test.pool.stats().waiting, inTime).toBe(6);
    answer();
    await waitUntil(() => test.pool.stats().waiting === 0, inTime);
    const neighbour = await test.run(trivial, { tenantId: 'alice' });
    expect(neighbour).toMatchObject({ kind: 'succeeded' });
    expect(test.pool.stats().busy).toBe(6);
    await test.close();
    expect(new Set((await Promise.all(all)).map(({ kind }) => kind))).toEqual(new Set(['killed']));
  });

  it('keep their place while they use more memory than an idle process may', async () => {
    const test = await pool({ maxChildren: 2, limits: { idleRssMb: 90 } });
    const { hostCalls, answer, asked } = network();
    const holds = handler(`const held = new Uint8Array(45 * 2 ** 20).fill(1);
      await fetch('https://slow.example/'); return { raw: held.length };`);
    const [large, small] = [
      test.run(holds, { tenantId: 'large', hostCalls, ...endless }),
      test.run(waits, { tenantId: 'small', hostCalls, ...endless }),
    ];
    await waitUntil(() => asked() === 2, inTime);
    await waitUntil(() => test.pool.stats().waiting === 1, inTime);
    // The sandbox measures every 25 ms. After twenty measurements the other run would have left its place.
    for (let looks = 0; looks < 20; looks++) {
      await new Promise((resolve) => setTimeout(resolve, 25));
      expect(test.pool.stats()).toMatchObject({ busy: 2, waiting: 1 });
    }
    answer();
    expect((await Promise.all([large, small])).map(({ kind }) => kind)).toEqual(succeeded(2));
  });

  it('end with the pool, and so do their processes', async () => {
    const test = await pool({ maxChildren: 2, maxRunsPerTenant: 6 });
    const { hostCalls } = network();
    const all = Array.from({ length: 10 }, () => test.run(waits, { hostCalls, ...endless }));
    await expect.poll(() => test.pool.stats().waiting, inTime).toBe(6);
    const { pids } = test.pool.stats();
    await test.close();
    expect(new Set((await Promise.all(all)).map(({ kind }) => kind))).toEqual(new Set(['killed']));
    expect(pids.filter(isAlive)).toEqual([]);
  });
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
