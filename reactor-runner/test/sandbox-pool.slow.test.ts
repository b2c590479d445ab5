import { waitUntil } from '@token-vault/test-support';
import { afterEach, describe, expect, it } from 'vitest';
import type { SandboxPoolOptions } from '../src/sandbox/index.ts';
import { createTestPool, handler, mayRaisePriority } from './sandbox-pool-fixture.ts';
import type { TestPool } from './sandbox-pool-fixture.ts';

const open: TestPool[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((test) => test.close()));
});

async function pool(options?: SandboxPoolOptions): Promise<TestPool> {
  const test = await createTestPool(options);
  open.push(test);
  return test;
}

const trivial = handler('return { raw: 1 };');
const endless = handler('for (;;);');

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

describe('the pool', () => {
  it('serves other tenants while one fills the queue with endless loops', async () => {
    const test = await pool({ maxChildren: 4, limits: { cpuMs: 600_000 } });
    const abort = new AbortController();
    const settings = { tenantId: 'mallory', timeoutMs: 600_000, signal: abort.signal };
    const loops = Array.from({ length: 10 }, () => test.run(endless, settings));
    let finished = 0;
    for (const loop of loops) void loop.then(() => (finished += 1));
    for (const tenantId of ['alice', 'bob', 'alice', 'bob']) {
      expect(await test.run(trivial, { tenantId })).toMatchObject({ kind: 'succeeded' });
    }
    expect(finished).toBe(0);
    abort.abort();
    expect((await Promise.all(loops)).every(({ kind }) => kind === 'killed')).toBe(true);
  });

  it('ends each of many endless loops at its time limit', async () => {
    const test = await pool({ maxChildren: 4 });
    const loops = Array.from({ length: 10 }, () => test.run(endless, { timeoutMs: 1_000 }));
    expect((await Promise.all(loops)).every(({ kind }) => kind === 'timed-out')).toBe(true);
  });

  it('never runs code of two tenants in one child', async () => {
    const test = await pool({ maxChildren: 2, spares: 1 });
    const before = new Set(test.pool.stats().pids);
    await test.run(trivial, { tenantId: 'alice' });
    await test.run(trivial, { tenantId: 'bob' });
    await test.run(trivial, { tenantId: 'carol' });
    const after = test.pool.stats().pids;
    expect(after.some((pid) => !before.has(pid))).toBe(true);
  });

  it('begins one run in each 8 ms after the first 16, of a tenant beside others', async () => {
    const test = await pool({ present: { isAlone: () => false } });
    const begunMs = performance.now();
    for (let runs = 0; runs < 116; runs += 1) await test.run(trivial);
    expect(performance.now() - begunMs).toBeGreaterThanOrEqual(99 * 8);
  });

  it('replaces a child after its number of runs', async () => {
    const test = await pool({ limits: { runsPerChild: 3 }, maxChildren: 1, spares: 1 });
    const pids = new Set<number>();
    for (let i = 0; i < 8; i++) {
      expect(await test.run(trivial)).toMatchObject({ kind: 'succeeded' });
      test.pool.stats().pids.forEach((pid) => pids.add(pid));
    }
    expect(pids.size).toBeGreaterThanOrEqual(3);
  });

  it('ends code that continues after its result, and keeps the child', async () => {
    const test = await pool({ maxChildren: 1, spares: 1 });
    const { pids } = test.pool.stats();
    const code = handler(
      'Promise.resolve().then(async () => { for (;;) { await 0; console.log(1); } }); return { raw: 1 };',
    );
    expect(await test.run(code, { timeoutMs: 60_000 })).toMatchObject({ kind: 'succeeded' });
    expect(await test.run(trivial)).toMatchObject({ kind: 'succeeded' });
    expect(test.pool.stats().pids).toEqual(pids);
  });

  it('keeps the child of code that reached its time limit, looping or waiting', async () => {
    // The child ends the run itself, however long a busy machine needs for that.
    const test = await pool({ maxChildren: 1, spares: 1, limits: { graceMs: 60_000 } });
    const { pids } = test.pool.stats();
    const waiting = handler('await new Promise((resolve) => setTimeout(resolve, 60_000));');
    for (const code of [endless, waiting, endless])
      expect((await test.run(code, { timeoutMs: 300 })).kind).toBe('timed-out');
    expect(await test.run(trivial)).toMatchObject({ kind: 'succeeded' });
    // Where the priority of a child that burned CPU cannot be raised again, the child is replaced.
    if (mayRaisePriority()) expect(test.pool.stats().pids).toEqual(pids);
  });

  const deadly = handler('for (let i = 0; i <= 1_000; i++) setTimeout(() => undefined, 60_000);');

  it('lets only the tenant whose code ends its children wait for new ones', async () => {
    // No start is given back during the test: on a busy machine a process starts in many seconds.
    const test = await pool({ maxChildren: 4, lossEachMs: 3_600_000 });
    const abort = new AbortController();
    // Two runs begin at once, so that one may begin before the loss of the eighth is known.
    const mallory = Array.from({ length: 10 }, () =>
      test.run(deadly, { tenantId: 'mallory', signal: abort.signal }),
    );
    const isHeldBack = () => {
      const { queued, busy, spares } = test.pool.stats();
      return queued <= 2 && busy === 0 && spares === 2;
    };
    await waitUntil(isHeldBack, { timeoutMs: 150_000 });
    expect(await test.run(trivial, { tenantId: 'alice' })).toMatchObject({ kind: 'succeeded' });
    expect(test.pool.stats().queued).toBeGreaterThan(0);
    abort.abort();
    const kinds = (await Promise.all(mallory)).map(({ kind }) => kind);
    expect(new Set(kinds)).toEqual(new Set(['limit-exceeded', 'killed']));
  }, 180_000);

  it('gives the tenant whose code ends its children a new one after a while', async () => {
    // Nothing else than the end of the time lets the pool look at its queue.
    const test = await pool({ maxChildren: 4, lossEachMs: 4_000, idleMs: 3_600_000 });
    const runs = Array.from({ length: 9 }, () => test.run(deadly, { tenantId: 'mallory' }));
    const kinds = (await Promise.all(runs)).map(({ kind }) => kind);
    expect(new Set(kinds)).toEqual(new Set(['limit-exceeded']));
  }, 180_000);

  it('ends a run that takes more CPU time than it may', async () => {
    const test = await pool({ limits: { cpuMs: 300 } });
    expect((await test.run(endless, { timeoutMs: 60_000 })).kind).toBe('timed-out');
    expect(await test.run(trivial)).toMatchObject({ kind: 'succeeded' });
  });

  it('ends a run whose process takes more memory than it may', async () => {
    const test = await pool({ limits: { childRssMb: 90 } });
    const code = handler('const held = new Uint8Array(40 * 2 ** 20).fill(1); for (;;) held.length;');
    expect((await test.run(code, { timeoutMs: 60_000 })).kind).toBe('out-of-memory');
    expect(await test.run(trivial)).toMatchObject({ kind: 'succeeded' });
  });

  it('answers a run whose child is killed from outside, and continues', async () => {
    const test = await pool();
    const run = test.run(handler('await new Promise((resolve) => setTimeout(resolve, 60_000));'), {
      timeoutMs: 60_000,
    });
    await waitUntil(() => test.pool.stats().busy === 1, { timeoutMs: 60_000 });
    test.pool.stats().pids.forEach((pid) => process.kill(pid, 'SIGKILL'));
    expect((await run).kind).toBe('killed');
    expect(await test.run(trivial)).toMatchObject({ kind: 'succeeded' });
  });

  it('ends a run that is aborted, waiting or running', async () => {
    const test = await pool({ maxChildren: 1, spares: 1 });
    const abort = new AbortController();
    const running = test.run(endless, { signal: abort.signal });
    const waiting = test.run(trivial, { signal: abort.signal });
    await waitUntil(() => test.pool.stats().busy === 1, { timeoutMs: 60_000 });
    abort.abort();
    expect((await Promise.all([running, waiting])).map(({ kind }) => kind)).toEqual(['killed', 'killed']);
    expect(await test.run(trivial)).toMatchObject({ kind: 'succeeded' });
  });

  it('refuses runs beyond the length of its queue, and those of other callers find room beside them', async () => {
    const test = await pool({ maxChildren: 1, maxQueuedPerTenant: 2 });
    const all = Array.from({ length: 6 }, () =>
      test.run(handler('await new Promise((r) => setTimeout(r, 50)); return {};'), { caller: 'mallory' }),
    );
    expect(await test.run(trivial, { caller: 'alice' })).toMatchObject({ kind: 'succeeded' });
    const kinds = (await Promise.all(all)).map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === 'overloaded').length).toBeGreaterThan(0);
    expect(kinds.filter((kind) => kind === 'succeeded').length).toBeGreaterThan(0);
  });

  it('refuses arguments and code beyond their limits', async () => {
    const test = await pool();
    expect(await test.run(trivial, { args: 'x'.repeat(2 ** 21) })).toMatchObject({ kind: 'limit-exceeded' });
    expect(await test.run(`${trivial}//${'x'.repeat(50_000)}`)).toMatchObject({ kind: 'compile-error' });
    const args = 'x'.repeat(1_000_000);
    expect(await test.run(handler('return { raw: req.args.length };'), { args })).toMatchObject({
      result: { raw: 1e6 },
    });
  });

  it('ends the children of idle tenants, and all of them when it closes', async () => {
    const test = await pool({ idleMs: 100, spares: 1 });
    await Promise.all(['a', 'b', 'c'].map((tenantId) => test.run(trivial, { tenantId })));
    await expect.poll(() => test.pool.stats().children, { timeout: 60_000 }).toBe(1);
    const { pids } = test.pool.stats();
    await test.close();
    expect(pids.filter(isAlive)).toEqual([]);
    expect(await test.run(trivial)).toMatchObject({ kind: 'killed' });
  });
});
