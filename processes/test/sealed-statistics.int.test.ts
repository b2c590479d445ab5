import { eventRegistry } from '@token-vault/contracts';
import { createPostgresEventStore } from '@token-vault/event-store/postgres';
import { projections, startProjectors } from '@token-vault/projectors';
import { createTestDatabase, createTestPool, waitUntil, type TestDatabase } from '@token-vault/test-support';
import type { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { migrate } from '../src/migrations/index.ts';
import { schema } from '../src/schema.ts';

let database: TestDatabase;
let pool: Pool;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = createTestPool(database.url);
});
afterAll(async () => {
  await pool.end();
  await database.drop();
});

/** The columns for which `pg_statistic` holds values. */
async function columnsWithValues(): Promise<string[]> {
  await pool.query('analyze');
  const { rows } = await pool.query<{ name: string }>(
    `select format('%s.%s.%s', schemaname, tablename, attname) as name from pg_stats
     where schemaname not in ('pg_catalog', 'information_schema')
       and (histogram_bounds is not null or most_common_vals is not null) order by 1`,
  );
  return rows.map(({ name }) => name);
}

const insertKeys = () =>
  pool.query(
    `insert into key_ring.data_key (id, tenant_id, tenant_key_version, created_at, purpose, entity, wrapped)
     select gen_random_uuid(), gen_random_uuid(), 1, now(), 'data', 'token:' || i,
            decode(substr(repeat(md5(i::text) || md5((-i)::text), 3), 1, 2 * $1::integer), 'hex')
     from generate_series(1, 300) i`,
    [wrappedLength],
  );
/** Format, IV, key and tag. */
const wrappedLength = 1 + 12 + 32 + 16;

describe('a database of the first release', () => {
  it('loses its statistics of wrapped keys and sealed values when it is migrated', async () => {
    const first = schema.map((set) => ({ ...set, migrations: set.migrations.slice(0, 1) }));
    await migrate(database.url, first);
    await pool.query(`
      create schema rm_tokens;
      create table rm_tokens.token (id text primary key, data text not null, cvc text);
      insert into rm_tokens.token select 'id ' || i, 'sv1.' || i, 'sv1.' || i from generate_series(1, 300) i`);
    await insertKeys();
    const sealed = ['key_ring.data_key.wrapped', 'rm_tokens.token.cvc', 'rm_tokens.token.data'];
    expect(await columnsWithValues()).toEqual(expect.arrayContaining(sealed));

    await migrate(database.url, schema);
    const left = await columnsWithValues();
    expect(left.filter((name) => sealed.includes(name))).toEqual([]);
    // The planner still has statistics of the columns by which it looks rows up.
    expect(left).toEqual(expect.arrayContaining(['key_ring.data_key.entity', 'rm_tokens.token.id']));
    await pool.query('drop schema rm_tokens cascade');
  });
});

describe('a database of this release', () => {
  it('keeps no statistics of any column that can hold a sealed value', async () => {
    const connection = { connectionString: database.url };
    const store = createPostgresEventStore({ registry: eventRegistry, connection });
    const projectors = startProjectors({ store, connectionString: database.url });
    await waitUntil(async () => (await projectors.status()).length === projections.length);
    await projectors.close();
    await store.close();
    const { rows } = await pool.query<{ name: string }>(
      `select format('%s.%s', a.attrelid::regclass, a.attname) as name from pg_attribute a
       join pg_class c on c.oid = a.attrelid and c.relkind = 'r' join pg_namespace n on n.oid = c.relnamespace
       where n.nspname !~ '^(pg_|information_schema)' and a.attnum > 0 and a.attstattarget is distinct from 0
         and (a.attname in ('wrapped', 'cvc', 'answer', 'configuration', 'webhook_secret')
           or (c.relname, a.attname) in (('token', 'data'), ('staged_event', 'event')))`,
    );
    expect(rows).toEqual([]);
  });
});
