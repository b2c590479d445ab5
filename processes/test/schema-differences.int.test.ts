import { eventRegistry } from '@token-vault/contracts';
import { createMemoryEventStore } from '@token-vault/event-store/memory';
import { describeSchemas } from '@token-vault/postgres';
import { projections, startProjectors } from '@token-vault/projectors';
import { createMetrics } from '@token-vault/observability';
import { createTestDatabase, createTestPool, waitUntil, type TestDatabase } from '@token-vault/test-support';
import type { Pool } from 'pg';
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from 'vitest';
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
  const objects = await describeSchemas(
    pool,
    rows.map(({ nspname }) => nspname),
  );
  const grouped = Object.groupBy(objects, ({ schema: of }) => of ?? '');
  const lines = Object.entries(grouped).map(([of, its]) => [of, its?.map(({ line }) => line)] as const);
  const bySchema = Object.fromEntries(lines.toSorted(([a], [b]) => (a < b ? -1 : 1)));
  await expect(`${JSON.stringify(bySchema, undefined, 2)}\n`).toMatchFileSnapshot(
    '../src/expected-schema.json',
  );
  expect(await findSchemaDifferences(pool)).toEqual([]);
});

it('indexes on columns, comments, rights, tables elsewhere and a rebuild are no differences', async () => {
  await pool.query(`
    create index of_operator on event_store.event (type desc) include (id);
    create unique index again on event_store.event (stream, revision);
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
const older = `update projections.checkpoint set version = version - 1 where name = 'alerts'`;

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
    'a foreign key of a table elsewhere',
    `create schema elsewhere; create table elsewhere.key (id uuid references key_ring.data_key on delete cascade)`,
    /^is not of this release: foreign key key_id_fkey of elsewhere\.key to key_ring\.data_key$/m,
  ],
  [
    'a policy',
    'create policy q on rm_tokens.token using (false); alter table rm_tokens.token enable row level security',
    /^is not of this release: policy q on rm_tokens\.token$/m,
  ],
  [
    'a trigger of the vault with another condition',
    `drop trigger status_changed on projections.checkpoint; create trigger status_changed after update of status on projections.checkpoint
     for each row when (new.status <> old.name) execute function projections.notify_status()`,
    /^is not of this release: trigger status_changed on projections\.checkpoint O 17 projections\.notify_status 4 when \(\(new\.status <> old\.name\)\)$/m,
  ],
  [
    'a trigger of the vault for one column',
    `drop trigger append_only on event_store.event; create trigger append_only before delete or update of bytes or truncate
     on event_store.event execute function event_store.refuse_change()`,
    /^is missing: trigger append_only on event_store\.event O/m,
  ],
  [
    'a trigger with a name of a read model whose version is older',
    `${trigger}; alter trigger q on event_store.event rename to "q rm_alerts.q"; ${older}`,
    /^is not of this release: trigger q rm_alerts\.q on event_store\.event O/m,
  ],
  [
    'a read model of an older version',
    older,
    /^the read model alerts is of version \d+, this release makes \d+: its projectors replace it, then verify again$/m,
  ],
  [
    'a view for the table of a read model of a newer version',
    `update projections.checkpoint set version = version + 1 where name = 'alerts';
     alter table rm_alerts.delivery rename to real; create view rm_alerts.delivery as select * from rm_alerts.real`,
    /^the read model alerts is of version \d+, this release makes \d+: a newer release makes it, or another program wrote its version$[^]+^is not of this release: relation rm_alerts\.delivery v/m,
  ],
  [
    'a read model without a row',
    `delete from projections.checkpoint where name = 'alerts'`,
    /^the read model alerts is not in projections\.checkpoint, this release makes \d+: /m,
  ],
  [
    'a row of a read model that no release has',
    `insert into projections.checkpoint (name, version, generation, status, position) values ('zzz', 1, 1, 'failed', 0)`,
    /^projections\.checkpoint has a row "zzz", and this release has no such read model: /m,
  ],
  [
    'a check',
    `alter table event_store.event add constraint q check (pg_sleep(0) is not null) not valid`,
    /^is not of this release: constraint q on event_store\.event c .*pg_sleep/m,
  ],
  [
    'a primary key less',
    'alter table key_ring.data_key drop constraint data_key_pkey cascade',
    /^is missing: constraint data_key_pkey on key_ring\.data_key p /m,
  ],
  [
    'a foreign key',
    'alter table projections.rebuild add constraint q foreign key (name) references projections.checkpoint on delete cascade',
    /^is not of this release: constraint q on projections\.rebuild f name to projections\.checkpoint/m,
  ],
  [
    'a default with another expression',
    'alter table projections.checkpoint alter updated_at set default clock_timestamp()',
    /^is not of this release: column projections\.checkpoint\.updated_at \d+ timestamp with time zone not null default clock_timestamp\(\)$/m,
  ],
  [
    'a table that inherits',
    'create table of_operator.more () inherits (rm_tokens.token)',
    /^is not of this release: relation rm_tokens\.token r p inherits$/m,
  ],
  [
    'an index of a part of the rows',
    `create function event_store.q(text) returns boolean immutable language sql as 'select false';
     create index q on event_store.event (stream, revision) where event_store.q(stream)`,
    /^is not of this release: index on event_store\.event btree \(stream collate pg_catalog\.C, revision\) where event_store\.q\(stream\)$/m,
  ],
  [
    'an index of an expression',
    'create index q on event_store.event (md5(stream))',
    /^is not of this release: index on event_store\.event btree \(md5\(stream\) collate pg_catalog\.C\)$/m,
  ],
  [
    'an index of the vault that is not valid',
    `update pg_index set indisvalid = false where indexrelid = 'key_ring.data_key_pkey'::regclass`,
    /^is not of this release: index on key_ring\.data_key btree \(id\) unique not valid$/m,
  ],
  [
    'a unique index more',
    'create unique index q on event_store.event (revision)',
    /^is not of this release: index on event_store\.event btree \(revision\) unique$/m,
  ],
  [
    'an index by a collation of its own',
    `create collation q.c (provider = icu, locale = 'und-u-ks-level1', deterministic = false);
     create index q on rm_tokens.token (id collate q.c)`,
    /^is not of this release: index on rm_tokens\.token btree \(id collate q\.c\)$/m,
  ],
  [
    'a column with another collation',
    `create collation q.c (provider = icu, locale = 'und-u-ks-level1', deterministic = false);
     alter table rm_tokens.token_metadata alter key type text collate q.c`,
    /^is not of this release: column rm_tokens\.token_metadata\.key 3 text collate q\.c not null$/m,
  ],
  [
    'two columns that exchanged their names',
    `alter table rm_tokens.token rename created_by to q; alter table rm_tokens.token rename type to created_by;
     alter table rm_tokens.token rename q to type`,
    /^is not of this release: column rm_tokens\.token\.type \d+ text not null$/m,
  ],
  [
    'a cast of the rows of a table',
    `create function q.text(rm_tokens.token) returns text language sql as 'select null::text';
     create cast (rm_tokens.token as text) with function q.text as implicit`,
    /^is not of this release: cast rm_tokens\.token as text i f$/m,
  ],
  [
    'arguments of a function that exchanged their names',
    `drop function projections.advance(text, integer, bigint, bigint);
     create function projections.advance(of_name text, of_generation integer, new_position bigint, old_position bigint)
     returns void language plpgsql as 'begin end'`,
    /^is not of this release: function projections\.advance\(.*\) \{of_name,of_generation,new_position,old_position\} returns void plpgsql f v/m,
  ],
  [
    'a function where the search path finds it',
    `create function public.q(integer = 1, out text) returns setof text strict language sql as $$ select 'x' $$`,
    /^is not of this release: function public\.q\(integer\) \{i,o\} integer, text 1 returns set of text sql f v strict/m,
  ],
  [
    'an operator where the search path finds it',
    `create function q.q(name, text) returns boolean language sql as 'select true';
     create operator public.= (function = q.q, leftarg = name, rightarg = text)`,
    /^is not of this release: operator public\.=$/m,
  ],
  ['a domain', 'create domain rm_tokens.q as text', /^is not of this release: type rm_tokens\.q d$/m],
  [
    'a trigger with another name of its rows',
    `drop trigger count_on_insert on rm_tokens.token; create trigger count_on_insert after insert on rm_tokens.token
     referencing new table as q for each statement execute function rm_tokens.count_on_insert()`,
    /^is not of this release: trigger count_on_insert on rm_tokens\.token O 4 rm_tokens\.count_on_insert new q$/m,
  ],
  [
    'a setting of the role',
    `alter role current_user set enable_seqscan = off; alter role current_user set log_statement = 'none'`,
    /^is not of this release: setting enable_seqscan=off$/m,
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
    await client.query(`begin; create schema q; ${change.replace('DATABASE', pathname.slice(1))}`);
    const found = await findSchemaDifferences(client);
    expect(found.join('\n')).toMatch(told);
  } finally {
    await client.query('rollback');
    client.release();
  }
});

it('a running vault warns of older read models in its first looks, until it has seen none, and counts them after that', async () => {
  const logger = { debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn() };
  const start = () => startSchemaWatch({ pool, logger, metrics: createMetrics('test'), upgradeLooks: 3 });
  const told = async (look: () => Promise<void>, times = 1): Promise<number[]> => {
    for (let i = 0; i < times; i += 1) await look();
    return [logger.warn.mock.calls.length, logger.error.mock.calls.length];
  };
  const current = older.replace('- 1', '+ 1');
  const [stays, returns] = [start(), start()];
  await pool.query(older);
  expect(await told(stays.look, 2)).toEqual([2, 0]);
  expect(await told(stays.look)).toEqual([2, 1]);
  expect(await told(returns.look)).toEqual([3, 1]);
  await pool.query(current);
  expect(await told(returns.look)).toEqual([3, 1]);
  await pool.query(older);
  expect(await told(returns.look)).toEqual([3, 2]);
  await pool.query(current);
  await Promise.all([stays.close(), returns.close()]);
});

function observed(options: { readonly from?: Pool; readonly upgradeLooks?: number } = {}) {
  const metrics = createMetrics('test');
  const logger = { debug: vi.fn(), info: vi.fn(), warn: vi.fn(), error: vi.fn() };
  const { look, close } = startSchemaWatch({ pool: options.from ?? pool, logger, metrics, ...options });
  onTestFinished(close);
  /** How often differences were counted, and how often errors and warnings were logged. */
  async function told() {
    const { values } = (await metrics.registry.getSingleMetric('vault_altered_records_total')?.get()) ?? {};
    const counted = values?.find(({ labels }) => labels['kind'] === 'schema')?.value ?? 0;
    return [counted, logger.error.mock.calls.length, logger.warn.mock.calls.length];
  }
  const reason = () => JSON.stringify(logger.error.mock.lastCall?.[0]);
  return { look, told, reason };
}

const dropTrigger = 'drop function event_store.q cascade';

it('a running vault counts differences in each look and logs them once', async () => {
  const { look, told, reason } = observed();
  await look();
  expect(await told()).toEqual([0, 0, 0]);
  await pool.query(trigger);
  await look();
  await look();
  expect(await told()).toEqual([2, 1, 0]);
  expect(reason()).toMatch(/"count":2,.*trigger q on event_store\.event/);
  await pool.query(dropTrigger);
});

it('a running vault compares nothing that a newer release has migrated, and counts it after an hour', async () => {
  const { look, told } = observed({ upgradeLooks: 3 });
  await pool.query(
    `insert into schema_migration (name, batch, migration_time) values ('newer/1 (a) b', 1, now())`,
  );
  await look();
  await look();
  expect(await told()).toEqual([0, 0, 2]);
  await look();
  expect(await told()).toEqual([1, 1, 2]);
  await pool.query(`delete from schema_migration where name = 'newer/1 (a) b'`);
  await look();
  expect(await told()).toEqual([1, 1, 2]);
});

it.each([
  [
    'a migration is not recorded any more',
    `with gone as (delete from schema_migration where name like 'misses/1 %' returning *) select * into kept from gone`,
    'insert into schema_migration select * from kept; drop table kept',
    /a migration of this release is not recorded any more/,
  ],
  [
    'a migration is recorded with another text',
    `update schema_migration set name = name || 'q' where name like 'misses/1 %'`,
    `update schema_migration set name = rtrim(name, 'q') where name like 'misses/1 %'`,
    /was applied with another text/,
  ],
])('a running vault goes on comparing when %s, and tells that, too', async (_what, change, back, what) => {
  const { look, told, reason } = observed();
  await pool.query(`${change}; ${trigger}`);
  await look();
  await pool.query(`${back}; ${dropTrigger}`);
  expect(await told()).toEqual([1, 1, 0]);
  expect(reason()).toMatch(what);
  expect(reason()).toMatch(/trigger q on event_store\.event/);
});

it('a running vault counts a difference whose name changes all the time', async () => {
  const { look, told } = observed();
  await pool.query(trigger);
  let isLooking = true;
  const looks = look().finally(() => (isLooking = false));
  let name = 'q';
  for (let i = 0; isLooking; i += 1) {
    await pool.query(`alter function event_store.${name} rename to q${i}`);
    name = `q${i}`;
  }
  await looks;
  await pool.query(`alter function event_store.${name} rename to q; ${dropTrigger}`);
  expect(await told()).toEqual([1, 1, 0]);
});

it('a running vault counts looks that fail, from the third in a row on', async () => {
  const url = new URL(database.url);
  url.searchParams.set('lock_timeout', '10');
  const impatient = createTestPool(url.href);
  const { look, told } = observed({ from: impatient });
  const locker = await pool.connect();
  const lock = () => locker.query('begin; lock table projections.checkpoint in access exclusive mode');
  await lock();
  await look();
  await look();
  await locker.query('rollback');
  await look();
  expect(await told()).toEqual([0, 0, 2]);
  await lock();
  for (let i = 0; i < 4; i += 1) await look();
  expect(await told()).toEqual([2, 1, 6]);
  await locker.query('rollback');
  locker.release();
  await impatient.end();
});
