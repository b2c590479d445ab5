import { afterEach, describe, expect, it } from 'vitest';
import type { HostCalls, RunOutcome, SandboxPoolOptions } from '../src/sandbox/index.ts';
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

const trivial = handler('return { raw: 1 };');
const succeeded = (count: number): string[] => Array.from({ length: count }, () => 'succeeded');
const kindsOf = async (runs: readonly Promise<RunOutcome>[]): Promise<string[]> =>
  (await Promise.all(runs)).map(({ kind }) => kind);

/** Code that asks for `count` runs at once, and waits for them. */
const asks = (count = 1): string =>
  handler(`await Promise.all(Array.from({ length: ${count} }, () => req.svc.reactors.react('inner', {})));
    return { raw: 'done' };`);

let runs = 0;

/** A run of the code, each of whose requests is a run of the code of the next level. */
function nest(
  test: TestPool,
  [code = trivial, ...inner]: readonly string[],
  settings: {
    readonly tenantId?: string;
    readonly timeoutMs?: number;
    readonly fetch?: HostCalls['fetch'];
  } = {},
  { depth, waiterId }: { readonly depth: number; readonly waiterId: string } = { depth: 0, waiterId: '' },
): Promise<RunOutcome> {
  const { fetch = () => new Promise(() => undefined), tenantId = 'tenant', timeoutMs = 20_000 } = settings;
  const runId = `run ${++runs}`;
  const hostCalls: HostCalls = {
    fetch,
    async svc() {
      const { kind } = await nest(test, inner, settings, { depth: depth + 1, waiterId: runId });
      if (kind !== 'succeeded') throw new Error(kind);
      return null;
    },
  };
  const waiter = depth === 0 ? {} : { waiter: { id: waiterId, depth } };
  return test.run(code, { tenantId, timeoutMs, hostCalls, runId, ...waiter });
}

const atOnce = (count: number, begin: () => Promise<RunOutcome>): Promise<RunOutcome>[] =>
  Array.from({ length: count }, begin);

describe('runs that wait for nested runs', () => {
  it('of three levels all succeed, though they hold all places of their tenant', async () => {
    const test = await pool();
    const all = atOnce(32, () => nest(test, [asks(), asks(), asks(), trivial], { timeoutMs: 60_000 }));
    expect(await kindsOf(all)).toEqual(succeeded(32));
  }, 180_000);

  it('succeed in a pool with one place', async () => {
    const test = await pool({ maxChildren: 1, maxRunsPerTenant: 1, spares: 1 });
    const all = atOnce(4, () => nest(test, [asks(3), asks(), asks(), trivial], { timeoutMs: 60_000 }));
    expect(await kindsOf(all)).toEqual(succeeded(4));
  }, 180_000);

  it('succeed beside those of other tenants that fill the pool', async () => {
    const test = await pool({ maxChildren: 4, maxRunsPerTenant: 8 });
    const tenants = ['alice', 'bob', 'carol', 'dave'];
    const all = tenants.flatMap((tenantId) =>
      atOnce(8, () => nest(test, [asks(), asks(2), asks(), trivial], { tenantId, timeoutMs: 60_000 })),
    );
    expect(await kindsOf(all)).toEqual(succeeded(32));
  }, 180_000);

  it('that are ended give their place back, and so do their nested runs', async () => {
    const test = await pool({ maxChildren: 2, maxRunsPerTenant: 4 });
    const endless = handler('for (;;);');
    const all = atOnce(8, () => nest(test, [asks(2), asks(), endless], { timeoutMs: 1_000 }));
    expect(await kindsOf(all)).not.toContain('succeeded');
    await expect.poll(() => test.pool.stats(), { timeout: 60_000 }).toMatchObject({ busy: 0, queued: 0 });
    expect(await kindsOf(atOnce(8, () => nest(test, [asks(), trivial])))).toEqual(succeeded(8));
  }, 180_000);

  it('that reach their time limit end their nested runs with them, and no run of another caller waits longer', async () => {
    const test = await pool({ maxChildren: 4, maxRunsPerTenant: 8 });
    const timeoutMs = 3_000;
    const inner: Promise<RunOutcome>[] = [];
    const ask = (waiterId: string) => async (): Promise<null> => {
      const run = { timeoutMs: 600_000, caller: 'mallory', waiter: { id: waiterId, depth: 1 } };
      const outcome = test.run(handler('for (;;);'), run);
      inner.push(outcome);
      await outcome;
      return null;
    };
    const outer = ['a', 'b', 'c', 'd'].map((runId) => {
      const hostCalls = { fetch: () => new Promise<never>(() => undefined), svc: ask(runId) };
      return test.run(asks(32), { timeoutMs, caller: 'mallory', runId, hostCalls });
    });
    await expect.poll(() => inner.length, { timeout: 60_000 }).toBe(4 * 32);
    expect(await test.run(trivial, { caller: 'alice' })).toMatchObject({ kind: 'succeeded' });
    expect(await kindsOf(outer)).toEqual(outer.map(() => 'timed-out'));
    expect(new Set(await kindsOf(inner))).toEqual(new Set(['timed-out', 'killed']));
    await expect.poll(() => test.pool.stats(), { timeout: 60_000 }).toMatchObject({ busy: 0, queued: 0 });
  }, 180_000);

  it('leave other tenants their places, also when all their nested runs loop', async () => {
    const test = await pool({ maxChildren: 4, maxRunsPerTenant: 8 });
    const endless = handler('for (;;);');
    const tenantId = 'mallory';
    const all = atOnce(8, () => nest(test, [asks(4), asks(4), endless], { tenantId, timeoutMs: 15_000 }));
    await expect.poll(() => test.pool.stats().busy, { timeout: 60_000 }).toBeGreaterThanOrEqual(4);
    for (const neighbour of ['alice', 'bob', 'carol', 'alice'])
      expect(await test.run(trivial, { tenantId: neighbour, timeoutMs: 60_000 })).toMatchObject({
        kind: 'succeeded',
      });
    // As many as the setting, as many in their places, and a quarter more at each deeper level.
    expect(test.pool.stats().busy).toBeLessThanOrEqual(8 + 8 + 2 * 2);
    await test.close();
    expect(await kindsOf(all)).not.toContain('succeeded');
  }, 180_000);
});
