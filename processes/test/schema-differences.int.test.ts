import { eventRegistry } from '@token-vault/contracts';
import { createMemoryEventStore } from '@token-vault/event-store/memory';
import { describeSchemas } from '@token-vault/postgres';
import { projections, startProjectors } from '@token-vault/projectors';
import { createTestDatabase, createTestPool, waitUntil, type TestDatabase } from '@token-vault/test-support';
import type { Pool } from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { migrate } from '../src/migrations/index.ts';
import { schema } from '../src/schema.ts';
import { findSchemaDifferences } from '../src/schema-differences.ts';

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
