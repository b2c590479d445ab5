import type { Token } from '@token-vault/contracts';
import { cardToken, createTestPool, waitUntil, type Client } from '@token-vault/test-support';
import type { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeCaller } from './attack.ts';
import { startNeighbours, type RunningNeighbours } from './running-neighbours.ts';

let running: RunningNeighbours;
let database: Pool;
let caller: Client;
let path: string;

beforeAll(async () => {
  running = await startNeighbours();
  database = createTestPool(await running.vault.databaseUrl());
  caller = await makeCaller(running.neighbour);
  const { id } = (await caller.expect<Token>(201, 'POST', '/tokens', { body: cardToken() })).body;
  path = `/tokens/${id}`;
});
afterAll(async () => {
  await database.end();
  await running.end();
});

/** The number of connections of the pool for reads. */
async function connections(condition = 'true'): Promise<number> {
  const { rowCount } = await database.query(
    `select from pg_stat_activity where application_name = 'vault reads' and ${condition}`,
  );
  return rowCount ?? 0;
}
const waiting = () => connections(`wait_event_type = 'Lock'`);

/** Runs `work` while no statement can read the table. */
async function whileLocked(table: string, work: () => Promise<void>): Promise<void> {
  const client = await database.connect();
  try {
    await client.query(`begin; lock table ${table} in access exclusive mode`);
    await work();
  } finally {
    await client.query('rollback');
    client.release();
  }
}

const untilCutOff = () =>
  waitUntil(async () => (await waiting()) === 0, { timeoutMs: 15_000, what: 'the end of the statement' });

/** Lists of one tenant have three of the six connections for reads. */
const places = 3;

// The test waits five real seconds: Postgres itself ends the statement, by the setting of the vault's pool.
describe('a statement that runs for longer than 5 s', () => {
  it('of a list is cancelled: 503, also for all places of a tenant, which are free afterwards', async () => {
    const { manager } = running.neighbour;
    const list = () => manager.request('GET', '/logs');
    await whileLocked('rm_log.entry', async () => {
      const cut = Array.from({ length: places }, list);
      await waitUntil(async () => (await waiting()) === places);
      // Other requests are served meanwhile.
      await caller.expect(200, 'GET', path);
      await untilCutOff();
      for (const { status, headers, body } of await Promise.all(cut)) {
        expect([status, headers.get('retry-after')]).toEqual([503, '1']);
        const detail = 'The query took too long and was stopped. Nothing was shown; ask for less.';
        expect(body).toMatchObject({ type: 'urn:token-vault:problem:unavailable', detail });
      }
    });
    // More statements than places: a place that was not returned would block them.
    const next = await Promise.all(Array.from({ length: 4 * places }, list));
    expect(next.map(({ status }) => status)).toEqual(next.map(() => 200));
    expect(await connections()).toBeLessThanOrEqual(6);
  });

  it('of a look-up by id is cancelled: 503, and the next look-up is answered', async () => {
    await whileLocked('rm_tokens.token', async () => {
      const cut = caller.request('GET', path);
      await waitUntil(async () => (await waiting()) > 0);
      await untilCutOff();
      const { status, headers, body } = await cut;
      expect([status, headers.get('retry-after')]).toEqual([503, '1']);
      expect(body).toMatchObject({ type: 'urn:token-vault:problem:unavailable' });
    });
    await waitUntil(async () => (await caller.request('GET', path)).status === 200);
    expect(await connections()).toBeLessThanOrEqual(6);
  });
});
