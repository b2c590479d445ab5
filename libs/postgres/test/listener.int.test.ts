import { createTestDatabase, createTestPool, waitUntil } from '@token-vault/test-support';
import type pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openListener } from '../src/index.ts';

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let pool: pg.Pool;

beforeEach(async () => {
  database = await createTestDatabase();
  pool = createTestPool(database.url);
});

afterEach(async () => {
  await pool.end();
  await database.drop();
});

describe('a listener', () => {
  it('receives each channel separately, no other channel, and reports once that its connection was lost', async () => {
    const heard: string[] = [];
    let losses = 0;
    const client = await openListener(
      { connectionString: database.url, application_name: 'test listener' },
      {
        first: (payload) => heard.push(`first:${payload}`),
        second: (payload) => heard.push(`second:${payload}`),
      },
      () => (losses += 1),
    );
    await pool.query(`select pg_notify('first', 'a'), pg_notify('third', 'b'), pg_notify('second', '')`);
    await waitUntil(() => heard.length === 2);
    expect(heard).toEqual(['first:a', 'second:']);
    await pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'test listener'`,
    );
    await waitUntil(() => losses > 0);
    await client.end().catch(() => undefined);
    expect(losses).toBe(1);
  });

  it('whose function fails has lost its connection, and the process goes on', async () => {
    let losses = 0;
    const fail = () => {
      throw new TypeError('of a payload that nothing of ours sends');
    };
    await openListener({ connectionString: database.url }, { first: fail }, () => (losses += 1));
    await pool.query(`notify first, 'nonsense'`);
    await waitUntil(() => losses > 0);
    const listening = `select from pg_stat_activity where datname = current_database() and query = 'listen first'`;
    await waitUntil(async () => (await pool.query(listening)).rowCount === 0);
    expect(losses).toBe(1);
  });

  it('rejects where there is no database', async () => {
    const gone = new URL(database.url);
    gone.pathname = '/no_such_database';
    await expect(openListener({ connectionString: gone.href }, {}, () => undefined)).rejects.toThrow();
  });
});
