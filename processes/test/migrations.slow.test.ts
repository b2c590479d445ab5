import type pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createTestDatabase, createTestPool, type TestDatabase } from '@token-vault/test-support';
import {
  finishRestore,
  isMigrated,
  migrate,
  MigrationError,
  readApplied,
  SchemaMismatchError,
  SchemaTooNewError,
  unfinishedRestore,
} from '../src/migrations/index.ts';

const first = {
  id: 1,
  name: 'make fruit',
  sql: 'create table public.fruit (name text); insert into public.fruit values (1);',
};
const second = { id: 2, name: 'add colour', sql: 'alter table public.fruit add colour text' };
const release1 = [{ name: 'orchard', migrations: [first] }];
const release2 = [{ name: 'orchard', migrations: [first, second] }];

let database: TestDatabase;
let pool: pg.Pool;

beforeEach(async () => {
  database = await createTestDatabase();
  pool = createTestPool(database.url);
});

afterEach(async () => {
  await pool.end();
  await database.drop();
});

async function applied(): Promise<string[]> {
  const steps = (await readApplied(pool)) ?? [];
  return steps.map(({ set, id }) => `${set}/${id}`).sort();
}

async function isMigratedBy(sets: typeof release1): Promise<boolean> {
  const client = await pool.connect();
  try {
    return await isMigrated(client, sets);
  } finally {
    client.release();
  }
}

describe('migrating', () => {
  it('applies what is missing, once and in order, for every set', async () => {
    await migrate(database.url, release1);
    const barn = {
      name: 'barn',
      migrations: [{ id: 1, name: 'make hay', sql: 'create table public.hay ()' }],
    };
    await migrate(database.url, [...release2, barn]);
    await migrate(database.url, [barn, ...release2]);
    expect(await applied()).toEqual(['barn/1', 'orchard/1', 'orchard/2']);
    expect((await pool.query('select name, colour from public.fruit')).rows).toEqual([
      { name: '1', colour: null },
    ]);
  });

  it('is run by one process when several start together', async () => {
    await Promise.all([1, 2, 3, 4, 5].map(() => migrate(database.url, release2)));
    expect((await pool.query('select name from public.fruit')).rowCount).toBe(1);
  });

  it('works on a client given, and leaves it usable and unlocked', async () => {
    const client = await pool.connect();
    await migrate(client, release1);
    expect((await client.query('select name from public.fruit')).rowCount).toBe(1);
    const locks = `select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()`;
    expect((await client.query(locks)).rowCount).toBe(0);
    client.release();
  });

  it('keeps the steps before a failing one, nothing of the failing one, and can continue later', async () => {
    const broken = { id: 2, name: 'break', sql: 'create table public.half (); select 1/0;' };
    const sets = [{ name: 'orchard', migrations: [first, broken] }];
    await expect(migrate(database.url, sets)).rejects.toThrow(MigrationError);
    await expect(migrate(database.url, sets)).rejects.toThrow(
      'migration orchard/2 (break) failed: division by zero',
    );
    expect(await applied()).toEqual(['orchard/1']);
    expect((await pool.query(`select to_regclass('half') as half`)).rows).toEqual([{ half: null }]);
    await migrate(database.url, release2);
    expect(await applied()).toEqual(['orchard/1', 'orchard/2']);
  });

  it('accepts other line endings', async () => {
    const step = (sql: string) => [{ name: 'orchard', migrations: [{ id: 1, name: 'two lines', sql }] }];
    await migrate(database.url, step('select 1;\nselect 2;'));
    await migrate(database.url, step('select 1;\r\nselect 2;'));
    expect(await applied()).toEqual(['orchard/1']);
  });
});

describe('a database of a release before Knex', () => {
  beforeEach(async () => {
    await migrate(database.url, release1);
    await pool.query(
      `create table public.vault_schema (
        set text not null, id integer not null, name text not null, checksum text not null,
        applied_at timestamptz not null default now(), primary key (set, id))`,
    );
    const [step] = (await readApplied(pool)) ?? [];
    const row = [step?.set, step?.id, step?.name, step?.checksum];
    await pool.query(
      'insert into public.vault_schema (set, id, name, checksum) values ($1, $2, $3, $4)',
      row,
    );
    await pool.query('drop table schema_migration, schema_migration_lock');
  });

  it('is taken over with its records: only new steps are applied', async () => {
    expect(await isMigratedBy(release1)).toBe(false);
    await Promise.all([1, 2, 3].map(() => migrate(database.url, release2)));
    expect(await applied()).toEqual(['orchard/1', 'orchard/2']);
    expect((await pool.query('select name, colour from public.fruit')).rows).toEqual([
      { name: '1', colour: null },
    ]);
    expect(await isMigratedBy(release2)).toBe(true);
  });

  it('is then refused by such a release, which finds records that it does not know', async () => {
    await migrate(database.url, release2);
    const { rows } = await pool.query<{ set: string }>(
      `select set from public.vault_schema where set <> 'orchard'`,
    );
    expect(rows).toEqual([{ set: 'schema_migration' }]);
  });

  it('is refused, and not partly taken over, when its newest step is unknown here', async () => {
    await pool.query(
      `insert into public.vault_schema (set, id, name, checksum) values ('orchard', 9, 'of tomorrow', '-')`,
    );
    await expect(migrate(database.url, release2)).rejects.toThrow(SchemaTooNewError);
    expect((await pool.query('select * from public.fruit')).rows).toEqual([{ name: '1' }]);
  });
});

describe('an older release', () => {
  it('refuses the schema of a newer one in one line, and changes nothing', async () => {
    await migrate(database.url, release2);
    const other = {
      name: 'barn',
      migrations: [{ id: 1, name: 'make hay', sql: 'create table public.hay ()' }],
    };
    const start = migrate(database.url, [other, ...release1]);
    await expect(start).rejects.toThrow(SchemaTooNewError);
    await expect(start).rejects.toThrow(
      /^the database schema "orchard" is at 2, this release knows up to 1.*[^\n]$/,
    );
    expect(await applied()).toEqual(['orchard/1', 'orchard/2']);
  });
});

describe('a release', () => {
  it('refuses a database with a set of tables that it does not know', async () => {
    await migrate(database.url, [...release1, { name: 'barn', migrations: [first] }].slice(1));
    const start = migrate(database.url, release1);
    await expect(start).rejects.toThrow('has the schema "barn", which this release does not know');
    expect(await applied()).toEqual(['barn/1']);
  });

  it('refuses a database that a restore has left half done, until the restore is complete', async () => {
    await migrate(database.url, [unfinishedRestore, ...release1]);
    await expect(migrate(database.url, release1)).rejects.toThrow('a restore into this database was cut off');
    await finishRestore(pool);
    await migrate(database.url, release1);
  });
});

describe('a schema that differs from the release', () => {
  it('is refused when an applied step has another text', async () => {
    await migrate(database.url, release1);
    const edited = [
      { name: 'orchard', migrations: [{ ...first, sql: 'create table public.fruit (name int)' }, second] },
    ];
    await expect(migrate(database.url, edited)).rejects.toThrow(SchemaMismatchError);
    expect(await applied()).toEqual(['orchard/1']);
  });

  it('is refused when a step was inserted before the last applied one', async () => {
    await migrate(database.url, [
      { name: 'orchard', migrations: [second].map((step) => ({ ...step, sql: 'select 1' })) },
    ]);
    const slipped = [{ name: 'orchard', migrations: [first, { ...second, sql: 'select 1' }] }];
    await expect(migrate(database.url, slipped)).rejects.toThrow('orchard/1 (make fruit) is older than 2');
  });

  it('is refused when the release lacks an applied step', async () => {
    const third = { id: 3, name: 'add taste', sql: 'alter table public.fruit add taste text' };
    await migrate(database.url, [{ name: 'orchard', migrations: [first, second, third] }]);
    const without = [{ name: 'orchard', migrations: [first, third] }];
    await expect(migrate(database.url, without)).rejects.toThrow('orchard/2 (add colour) was applied, but');
  });

  it('is refused when the numbers do not ascend', async () => {
    await expect(migrate(database.url, [{ name: 'orchard', migrations: [second, first] }])).rejects.toThrow(
      'out of order',
    );
  });
});
