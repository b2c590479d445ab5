import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server } from 'node:net';
import { createTestDatabase, createTestPool, type TestDatabase } from '@token-vault/test-support';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createPool, VaultClient } from '../src/index.ts';

let database: TestDatabase;

/** Sum and date as a session of the role reads them. */
const statement = `select (40 + 2)::text as sum, '03/04/2026'::date::text as date, (null = null) is null as "isUnknown",
  current_setting('transaction_isolation') as isolation`;
const ofPostgres = [{ sum: '42', date: '2026-03-04', isUnknown: true, isolation: 'read committed' }];

beforeAll(async () => {
  database = await createTestDatabase();
  const pool = createTestPool(database.url);
  await pool.query(`create schema evil;
    create function evil.nothing(integer, integer) returns integer language sql immutable as 'select 0';
    create operator evil.+ (function = evil.nothing, leftarg = integer, rightarg = integer)`);
  const { rows } = await pool.query<{ name: string }>('select quote_ident(current_database()) as name');
  const settings = [
    'search_path = evil, pg_catalog',
    "datestyle = 'SQL, DMY'",
    'transform_null_equals = on',
    "default_transaction_isolation = 'serializable'",
  ];
  for (const setting of settings)
    await pool.query(`alter role current_user in database ${rows[0]?.name} set ${setting}`);
  await pool.end();
});
afterAll(() => database.drop());

describe('settings of the role', () => {
  it('change the answers of a connection that is not of the vault', async () => {
    const pool = createTestPool(database.url);
    expect((await pool.query(statement)).rows).toEqual([
      { sum: '0', date: '03/04/2026', isUnknown: false, isolation: 'serializable' },
    ]);
    await pool.end();
  });

  it('change no answer of a connection of the vault, also when its URL has settings', async () => {
    const options = 'options=-c%20search_path%3Devil%2Cpg_catalog';
    const withOptions = `${database.url}${database.url.includes('?') ? '&' : '?'}${options}`;
    for (const url of [database.url, withOptions]) {
      const client = new VaultClient(url);
      await client.connect();
      expect((await client.query(statement)).rows).toEqual(ofPostgres);
      await client.end();
    }
  });

  it('change no answer of a pool of the vault', async () => {
    const pool = createPool({ connectionString: database.url, max: 2 });
    const both = await Promise.all([pool.query(statement), pool.query(statement)]);
    for (const { rows } of both) expect(rows).toEqual(ofPostgres);
    await pool.end();
  });
});

it('a connection that cannot be made is an error of `connect`, by promise and by callback', async () => {
  const url = 'postgres://127.0.0.1:1/none';
  await expect(new VaultClient(url).connect()).rejects.toThrow(/ECONNREFUSED/);
  const error = await new Promise((resolve) => new VaultClient(url).connect(resolve));
  expect(error).toMatchObject({ code: 'ECONNREFUSED' });
});

describe('a connection that breaks while its settings are set', () => {
  /** Stands before Postgres and ends a connection at its first statement. */
  async function breaking(): Promise<{ place: pg.PoolConfig; server: Server }> {
    const { host, port, user, password, database: name } = new pg.Client(database.url);
    const server = createServer((client) => {
      const postgres = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host);
      client.on('data', (bytes) => {
        if (bytes.includes('search_path')) client.destroy();
        else postgres.write(bytes);
      });
      client.on('close', () => postgres.destroy());
      postgres.pipe(client);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const place = { host: '127.0.0.1', port: (server.address() as AddressInfo).port };
    return { place: { ...place, user, password, database: name }, server };
  }

  it('is an error of `connect`, and the process continues', async () => {
    const { place, server } = await breaking();
    await expect(new VaultClient(place).connect()).rejects.toThrow(/terminated unexpectedly/);
    const pool = createPool(place);
    await expect(pool.query('select 1')).rejects.toThrow(/terminated unexpectedly/);
    await pool.end();
    server.close();
  });
});
