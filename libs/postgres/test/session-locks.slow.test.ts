import { createTestDatabase, waitUntil } from '@token-vault/test-support';
import pg from 'pg';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { tryHold } from '../src/session-locks.ts';

const lock = { lockClass: 4711, name: 'the work' };
let url: string;

beforeEach(async () => {
  const database = await createTestDatabase();
  url = database.url;
  onTestFinished(() => database.drop());
});

async function connect(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  onTestFinished(() => client.end().catch(() => undefined));
  return client;
}

const ageOf = async (by: pg.Client, pid: number): Promise<number> => {
  const { rows } = await by.query<{ seconds: number }>(
    `select extract(epoch from clock_timestamp() - backend_start)::float as seconds from pg_stat_activity where pid = $1`,
    [pid],
  );
  return rows[0]?.seconds ?? NaN;
};
const pidOf = async (client: pg.Client): Promise<number> =>
  (await client.query<{ pid: number }>('select pg_backend_pid() as pid')).rows[0]?.pid ?? 0;

describe('a lock of a session', () => {
  it('has one holder, and is free when its session ends', async () => {
    const [first, second] = [await connect(), await connect()];
    expect(await tryHold(first, lock)).toBe(true);
    expect(await tryHold(second, lock)).toBe(false);
    expect(await tryHold(second, { ...lock, name: 'other work' })).toBe(true);
    await first.end();
    await waitUntil(() => tryHold(second, lock), { what: 'the second holder' });
  });

  it('is taken over from a frozen holder', async () => {
    const [frozen, second] = [await connect(), await connect()];
    // Like the session of a stopped process: it holds the lock and sends no heartbeats.
    await frozen.query('select pg_advisory_lock($1, hashtext($2))', [lock.lockClass, lock.name]);
    await waitUntil(() => tryHold(second, lock), { timeoutMs: 15_000, what: 'the second holder' });
    await expect(frozen.query('select 1')).rejects.toThrow();
  });

  it('is not taken over from a running holder, after any time', async () => {
    const [holder, other] = [await connect(), await connect()];
    expect(await tryHold(holder, lock)).toBe(true);
    const pid = await pidOf(holder);
    // Longer than the limit between two heartbeats of a holder.
    await waitUntil(
      async () => {
        expect(await tryHold(other, lock)).toBe(false);
        return (await ageOf(other, pid)) > 5;
      },
      { timeoutMs: 20_000, what: 'five seconds of the holder' },
    );
    expect(await pidOf(holder)).toBe(pid);
  });
});
