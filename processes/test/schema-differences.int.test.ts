import { eventRegistry } from '@token-vault/contracts';
import { createMemoryEventStore } from '@token-vault/event-store/memory';
import { describeSchemas } from '@token-vault/postgres';
import { projections, startProjectors } from '@token-vault/projectors';
import { createMetrics } from '@token-vault/observability';
import { createTestDatabase, createTestPool, waitUntil, type TestDatabase } from '@token-vault/test-support';
import type { Pool } from 'pg';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { migrate } from '../src/migrations/index.ts';
import { schema } from '../src/schema.ts';
import { findSchemaDifferences } from '../src/schema-differences.ts';
import { startSchemaWatch } from '../src/schema-watch.ts';

let database: TestDatabase;
let pool: Pool;
beforeAll(async () => {
  database = await createTestDatabase();
  pool = createTestPool(database.url);
  await migrate(database.url, schema);
  const store = createMemoryEventStore({ registry: eventRegistry });
  const projectors = startProjectors({ store, connectionString: database.url });
  await waitUntil(async () => (await projectors.status()).length === projections.length, {
    what: 'all projections',
  });
  await projectors.close();
});
afterAll(async () => {
  await pool.end();
  await database.drop();
});

// `npm run --silent test:all -- --project default processes/test/schema-differences.int.test.ts -u` writes the file anew.
it('the schema of this release is the one of expected-schema.json', async () => {
  const { rows } = await pool.query<{ nspname: string }>(
    `select nspname from pg_namespace where nspname !~ '^pg_|^(information_schema|public)$'`,
  );
  const lines = await describeSchemas(
    pool,
    rows.map(({ nspname }) => nspname),
  );
  await expect(`${JSON.stringify(lines, undefined, 2)}\n`).toMatchFileSnapshot('../src/expected-schema.json');
  expect(await findSchemaDifferences(pool)).toEqual([]);
});

it('indexes, comments, rights, tables elsewhere and a rebuild are no differences', async () => {
  await pool.query(`
    create index of_operator on event_store.event (type);
    comment on table event_store.event is 'of the operator';
    create statistics of_operator on type, stream from event_store.event;
    create role reader_of_test; grant usage on schema event_store to reader_of_test;
    grant select on event_store.event to reader_of_test;
    create schema of_operator; create table of_operator.note (text text);
    create schema rm_tokens_next; create table rm_tokens_next.token (id text)`);
  expect(await findSchemaDifferences(pool)).toEqual([]);
  await pool.query('drop owned by reader_of_test; drop role reader_of_test');
});

const replaced = 'create or replace function event_store.refuse_change() returns trigger language plpgsql';
const trigger = `create function event_store.q() returns trigger language plpgsql as 'begin return null; end';
  create trigger q before insert on event_store.event for each row execute function event_store.q()`;

it.each([
  [
    'a view for a table',
    `alter table event_store.event rename to event_real; create view event_store.event as select * from event_store.event_real`,
    /^is not of this release: relation event_store\.event v/m,
  ],
  [
    'a function with another body',
    `${replaced} as 'begin return new; end'`,
    /^is not of this release: function event_store\.refuse_change\(\)/m,
  ],
  ['a trigger more', trigger, /^is not of this release: trigger q on event_store\.event O/m],
  [
    'a trigger of the vault that does not fire',
    'alter table event_store.event disable trigger append_only',
    /^is missing: trigger append_only on event_store\.event O/m,
  ],
  [
    'a rule',
    'create rule q as on insert to key_ring.data_key do instead nothing',
    /^is not of this release: rule q on key_ring\.data_key/m,
  ],
  [
    'a policy',
    'create policy q on rm_tokens.token using (false); alter table rm_tokens.token enable row level security',
    /^is not of this release: policy q on rm_tokens\.token$/m,
  ],
  [
    'a table that inherits',
    'create table of_operator.more () inherits (rm_tokens.token)',
    /^is not of this release: relation rm_tokens\.token r p inherits$/m,
  ],
  [
    'a search path',
    `alter role current_user in database DATABASE set search_path = q, pg_catalog`,
    /^is not of this release: setting search_path=q, pg_catalog$/m,
  ],
])('%s is a difference', async (_what, change, told) => {
  const client = await pool.connect();
  try {
    const { pathname } = new URL(database.url);
    await client.query(`begin; ${change.replace('DATABASE', pathname.slice(1))}`);
    const found = await findSchemaDifferences(client);
    expect(found.join('\n')).toMatch(told);
  } finally {
    await client.query('rollback');
    client.release();
  }
});

it('a running vault counts differences in each look and logs them once; it compares nothing that a newer release migrated', async () => {
  const metrics = createMetrics('test');
  const logger = { debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn() };
  const watch = startSchemaWatch({ pool, logger, metrics });
  const counted = async (): Promise<number | undefined> => {
    const { values } = (await metrics.registry.getSingleMetric('vault_altered_records_total')?.get()) ?? {};
    return values?.find(({ labels }) => labels['kind'] === 'schema')?.value;
  };
  await watch.look();
  expect([await counted(), logger.error.mock.calls, logger.warn.mock.calls]).toEqual([undefined, [], []]);
  await pool.query(trigger);
  await watch.look();
  await watch.look();
  expect(await counted()).toBe(2);
  expect(logger.error.mock.calls).toEqual([
    [
      { count: 2, reason: expect.stringContaining('trigger q on event_store.event') as string },
      expect.any(String),
    ],
  ]);
  await pool.query(
    `insert into schema_migration (name, batch, migration_time) values ('newer/1 (a) b', 1, now())`,
  );
  await watch.look();
  expect([await counted(), logger.warn.mock.calls.length]).toEqual([2, 1]);
  await watch.close();
});
