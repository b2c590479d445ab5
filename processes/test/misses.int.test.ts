import { createRequestContext, type RequestContext } from '@token-vault/operations';
import { createMissLimit, RateLimitedError, type MissLimit } from '@token-vault/http';
import { createTestDatabase, createTestPool, waitUntil, type TestDatabase } from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import type { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSharedCounter, missMigrations } from '../src/misses.ts';

let database: TestDatabase;
let pools: readonly Pool[];

beforeAll(async () => {
  database = await createTestDatabase();
  pools = Array.from({ length: 3 }, () => createTestPool(database.url));
  for (const { sql } of missMigrations) await pools[0]?.query(sql);
});
afterAll(async () => {
  await Promise.all(pools.map((pool) => pool.end()));
  await database.drop();
});

/** A process, which knows nothing of the others and of those before it. */
const newProcess = (index = 0): MissLimit => {
  const pool = pools[index];
  if (!pool) throw new Error('there is no such process');
  return createMissLimit({ counter: createSharedCounter(pool) });
};

/** A caller of an application of its own. */
function callerWith(limit: number): RequestContext {
  const tenant = {
    id: randomUUID(),
    plan: 'standard',
    settings: { data_misses_per_minute: String(limit) },
  } as const;
  const id = randomUUID();
  const principal = {
    tenant,
    actor: { kind: 'application', id },
    applicationId: id,
    applicationType: 'private',
    permissions: [],
    rules: [],
  } as const;
  return createRequestContext({ principal, traceId: 'trace', now: new Date() });
}

const rowOf = async ({ principal }: RequestContext) => {
  const text = 'select taken from limits.miss where application_id = $1';
  return (await pools[0]?.query<{ taken: number }>(text, [principal.applicationId]))?.rows[0];
};
const endWindow = async ({ principal }: RequestContext) => {
  const text = `update limits.miss set ends_at = clock_timestamp() where application_id = $1`;
  await pools[0]?.query(text, [principal.applicationId]);
};
const admitted = async (tries: Promise<unknown>[]) =>
  (await Promise.allSettled(tries)).filter(({ status }) => status === 'fulfilled').length;

it('a process admits no more than the limit a minute, also when its row is taken away', async () => {
  const caller = callerWith(5);
  const process = newProcess();
  const forget = () =>
    pools[0]?.query('delete from limits.miss where application_id = $1', [caller.principal.applicationId]);
  let tries = 0;
  for (let n = 0; n < 10; n += 1) {
    await forget();
    tries += await admitted([process.count(caller, 1)]);
  }
  expect(tries).toBe(5);
  await forget();
  await expect(process.count(caller, 1)).rejects.toBeInstanceOf(RateLimitedError);
  await newProcess(1).count(caller, 1);
});

describe('processes that count tries at the same time', () => {
  it.each([1, 2, 3, 15, 100])('never admit more than %d in all', async (limit) => {
    const caller = callerWith(limit);
    const processes = pools.map((_, index) => newProcess(index));
    const triesOf = (process: MissLimit) => Array.from({ length: limit }, () => process.count(caller, 1));
    let sum = await admitted(processes.flatMap(triesOf));
    expect(sum).toBeLessThanOrEqual(limit);
    // What is left is in blocks that some process holds.
    for (const process of processes) sum += await admitted(triesOf(process));
    expect(sum).toBe(limit);
    expect(await rowOf(caller)).toEqual({ taken: limit });
  });

  it('admit one request above the limit, not one of each', async () => {
    const caller = callerWith(100);
    const processes = pools.map((_, index) => newProcess(index));
    for (const process of processes) await process.count(caller, 1);
    const searches = processes.flatMap((process) => [process.count(caller, 60), process.count(caller, 60)]);
    expect(await admitted(searches)).toBe(2);
  });

  it('do not refuse an application whose tries find what they look for', async () => {
    const caller = callerWith(2);
    for (let n = 0; n < 30; n += 1) await (await newProcess(n % 3).count(caller, 1)).found(1);
    expect(await rowOf(caller)).toEqual({ taken: 0 });
  });
});

it('a process goes on where the one before it ended', async () => {
  const caller = callerWith(9);
  await newProcess().count(caller, 5);
  const restarted = newProcess(1);
  expect(await admitted(Array.from({ length: 9 }, () => restarted.count(caller, 1)))).toBe(4);
});

it('the next minute begins for all processes with the first try after the end of the last one', async () => {
  const caller = callerWith(2);
  const [one, other] = [newProcess(0), newProcess(1)];
  const counted = await one.count(caller, 2);
  const refusal: unknown = await other.count(caller, 1).catch((error: unknown) => error);
  if (!(refusal instanceof RateLimitedError)) throw new Error('it was admitted');
  expect(refusal.retryAfterSeconds).toBeGreaterThan(30);
  expect(refusal.retryAfterSeconds).toBeLessThanOrEqual(60);
  await endWindow(caller);
  await other.count(caller, 1);
  // It belongs to the minute that has ended.
  await counted.found(2);
  expect(await admitted([one.count(caller, 1), other.count(caller, 1)])).toBe(1);
});

it('windows that are over are removed, and no others', async () => {
  const [old, open] = [callerWith(2), callerWith(2)];
  for (const caller of [old, open]) await newProcess().count(caller, 1);
  await endWindow(old);
  await newProcess(1).count(callerWith(2), 1);
  await waitUntil(async () => (await rowOf(old)) === undefined, { what: 'the removal' });
  expect(await rowOf(open)).toEqual({ taken: 1 });
});
