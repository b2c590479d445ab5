import { createTestDatabase, waitUntil, type TestDatabase } from '@token-vault/test-support';
import pg from 'pg';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { ignoreIdleConnectionErrors } from '../src/ignore-idle-connection-errors.ts';

let database: TestDatabase;
let pool: pg.Pool;
let idleLosses: number;

beforeEach(async () => {
  database = await createTestDatabase();
  pool = new pg.Pool({ connectionString: database.url, application_name: 'heard' });
  idleLosses = 0;
  ignoreIdleConnectionErrors(pool, () => (idleLosses += 1));
});
afterEach(async () => {
  await pool.end();
  await database.drop();
});

async function cut(): Promise<void> {
  const client = new pg.Client(database.url);
  await client.connect();
  await client.query(
    "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'heard' and datname = current_database()",
  );
  await client.end();
}

// Without a listener the lost connection would be an uncaught exception, which fails the run.
it('a connection that is lost while it is in use is reported by its next query', async () => {
  const client = await pool.connect();
  let hasEnded = false;
  client.once('end', () => (hasEnded = true));
  await cut();
  await waitUntil(() => hasEnded);
  await expect(client.query('select')).rejects.toThrow();
  client.release(true);
  expect(idleLosses).toBe(0);
  expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
});

it('a connection that is lost while it is idle is replaced', async () => {
  await pool.query('select');
  await cut();
  await waitUntil(() => idleLosses === 1);
  expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
});
