import type { Application, LogEntry, Token } from '@token-vault/contracts';
import {
  type Client,
  cardToken,
  createDataDirectory,
  createTestPool,
  plainApplication,
  removeDataDirectory,
  type StandaloneProcess,
  startStandaloneProcess,
  waitUntil,
} from '@token-vault/test-support';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const livesMs = 4_000;
/** A little longer than two sweeps: the sweeper runs every 30 s. */
const sweptWithinMs = 75_000;

let dataDir: string;
let vault: StandaloneProcess;
let manager: Client;

beforeAll(async () => {
  dataDir = await createDataDirectory();
  vault = await startStandaloneProcess({ dataDir });
  manager = vault.client();
});
afterAll(async () => {
  await vault.stop();
  await removeDataDirectory(dataDir);
});

async function countOf(sql: string, value: string): Promise<number> {
  const pool = createTestPool(await vault.databaseUrl());
  try {
    const { rows } = await pool.query<{ count: number }>(sql, [value]);
    return rows[0]?.count ?? 0;
  } finally {
    await pool.end();
  }
}

const keysOf = (tokenId: string) =>
  countOf('select count(*)::int as count from key_ring.data_key where entity = $1', `token:${tokenId}`);

async function operationsOf(id: string): Promise<readonly string[]> {
  const { body } = await manager.expect<{ data: LogEntry[] }>(200, 'GET', `/logs?entity_id=${id}&size=100`);
  return body.data.map(({ operation }) => operation);
}

// Other suites use a test clock. This one waits real time, and the sweeper runs by itself.
describe('an entity with an expiry', () => {
  it(
    'exists before the second of its expiry, is not found after it, and its keys are destroyed within a minute',
    { timeout: 150_000 },
    async () => {
      const expiresAt = new Date(Date.now() + livesMs).toISOString();
      const lasting = await manager.expect<Application>(201, 'POST', '/applications', {
        body: plainApplication(),
      });
      const passing = await manager.expect<Application>(201, 'POST', '/applications', {
        body: { ...plainApplication(), expires_at: expiresAt },
      });
      const backend = vault.client(lasting.body.key);
      const token = await backend.expect<Token>(201, 'POST', '/tokens', {
        body: { ...cardToken(), expires_at: expiresAt },
      });
      await vault.client(passing.body.key).expect(200, 'GET', `/tokens/${token.body.id}`);
      expect(await keysOf(token.body.id)).toBe(2);

      await sleep(Math.max(0, Date.parse(expiresAt) - Date.now()));
      await backend.expect(404, 'GET', `/tokens/${token.body.id}`);
      const { body: list } = await backend.expect<{ pagination: { total_items: number }; data: Token[] }>(
        200,
        'GET',
        '/tokens',
      );
      expect({ data: list.data, total: list.pagination.total_items }).toEqual({ data: [], total: 0 });
      await vault.client(passing.body.key).expect(401, 'GET', `/tokens/${token.body.id}`);

      const options = { timeoutMs: sweptWithinMs };
      await waitUntil(async () => (await keysOf(token.body.id)) === 0, { ...options, what: 'erasure' });
      await waitUntil(async () => (await operationsOf(token.body.id)).includes('expire'), {
        ...options,
        what: 'the entry of the token',
      });
      await waitUntil(async () => (await operationsOf(passing.body.id)).includes('expire'), {
        ...options,
        what: 'the entry of the application',
      });
    },
  );
});
