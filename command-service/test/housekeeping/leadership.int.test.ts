import { silentLogger } from '@token-vault/observability';
import { createTestDatabase, waitUntil } from '@token-vault/test-support';
import { once } from 'node:events';
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { leadWheneverPossible } from '../../src/housekeeping/leadership.ts';

it('a frozen leader is replaced, and learns it when it runs again', async () => {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const frozen = new pg.Client({ connectionString: database.url });
  frozen.on('error', () => undefined);
  const ended = new Promise((resolve) => frozen.once('end', resolve));
  await frozen.connect();
  onTestFinished(() => frozen.end().catch(() => undefined));
  // Like a stopped process: its session holds the lock and sends no heartbeats.
  await frozen.query(`select pg_advisory_lock(7310581, hashtext('task'))`);
  const stop = new AbortController();
  let terms = 0;
  const options = { connectionString: database.url, name: 'task', logger: silentLogger, signal: stop.signal };
  const leading = leadWheneverPossible(options, async (signal) => {
    terms += 1;
    await once(signal, 'abort');
  });
  await waitUntil(() => terms === 1, { timeoutMs: 15_000, what: 'the new leader' });
  await ended;
  stop.abort();
  await leading;
  expect(terms).toBe(1);
});
