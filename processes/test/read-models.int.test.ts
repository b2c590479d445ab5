import { eventRegistry } from '@token-vault/contracts';
import type { Position } from '@token-vault/event-store';
import { createMemoryEventStore } from '@token-vault/event-store/memory';
import { projections } from '@token-vault/projectors';
import { createMetrics, noSpans, silentLogger } from '@token-vault/observability';
import { createTestDatabase, createTestPool } from '@token-vault/test-support';
import { expect, it, onTestFinished } from 'vitest';
import { Closers } from '../src/closers.ts';
import { openReadModels } from '../src/data.ts';
import { readinessOf } from '../src/http.ts';
import { migrate } from '../src/migrations/index.ts';
import { schema } from '../src/schema.ts';

const storage = { requireSpace: () => undefined };

it('a write waits for the read models that clients read; only readers of the log wait for the log', async () => {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  await migrate(database.url, schema);
  const pool = createTestPool(database.url);
  const closers = new Closers();
  onTestFinished(async () => {
    await closers.close();
    await pool.end();
  });
  for (const { name, version } of projections) {
    const isBehind = name === 'log' || name === 'invocations';
    await pool.query(
      `insert into projections.checkpoint (name, version, generation, status, position) values ($1, $2, 1, $3, $4)`,
      [name, version, isBehind ? 'failed' : 'live', isBehind ? 3 : 5],
    );
  }
  const settings = { databaseUrl: database.url, eventStore: { kind: 'postgres' as const } };
  const metrics = createMetrics('test');
  const { progress } = await openReadModels(
    { settings, logger: silentLogger, metrics, spans: noSpans, closers, storage },
    createMemoryEventStore({ registry: eventRegistry }),
  );
  expect(await progress.waitFor('5' as Position, 5_000)).toBe(true);
  expect(await progress.waitFor('5' as Position, 5_000, ['log'])).toBe(false);
});

it('a process is ready although projections.checkpoint has a failed row with the name of no read model', async () => {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  await migrate(database.url, schema);
  const readPool = createTestPool(database.url);
  onTestFinished(() => readPool.end());
  await readPool.query(`insert into projections.checkpoint (name, version, generation, status, position)
    values ('tokens', 1, 1, 'live', 5), ('planted', 1, 1, 'failed', 0)`);
  const store = createMemoryEventStore({ registry: eventRegistry });
  onTestFinished(() => store.close());
  const isReady = () => readinessOf({ store, readPool })['projections']?.();
  expect(await isReady()).toEqual([{ name: 'tokens', version: 1, status: 'live', position: '5' }]);
  await readPool.query(`update projections.checkpoint set status = 'failed'`);
  await expect(isReady()).rejects.toThrow('not all are live');
});

it('a read is stopped by Postgres after five seconds', async () => {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  await migrate(database.url, schema);
  const closers = new Closers();
  onTestFinished(() => closers.close());
  const settings = { databaseUrl: database.url, eventStore: { kind: 'postgres' as const } };
  const { readPool } = await openReadModels(
    { settings, logger: silentLogger, metrics: createMetrics('test'), spans: noSpans, closers, storage },
    createMemoryEventStore({ registry: eventRegistry }),
  );
  expect((await readPool.query('show statement_timeout')).rows).toEqual([{ statement_timeout: '5s' }]);
});
