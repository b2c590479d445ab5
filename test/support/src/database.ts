import { createHash, randomBytes } from 'node:crypto';
import pg from 'pg';
import { testPostgresUrl } from './starter.ts';

export interface TestDatabase {
  /** Connection string of a superuser. */
  readonly url: string;
  /** Cuts the open connections and removes the database. It may be called repeatedly. */
  readonly drop: () => Promise<void>;
}

/**
 * The content with which every clone starts. It is filled once in a run, also when several workers ask at once, and
 * then cloned in about 30 ms.
 */
export interface Template {
  /** The name of the template. Different content needs a different name. */
  readonly name: string;
  /** Fills the template. Its connections must be closed when it resolves. */
  readonly fill: (url: string) => Promise<void>;
}

/** A fresh database, empty or cloned from `template`. */
export async function createTestDatabase(
  options: { readonly template?: Template } = {},
): Promise<TestDatabase> {
  const { template } = options;
  const source = template ? await filledTemplate(template) : 'template1';
  const name = `test_${process.pid}_${randomBytes(6).toString('hex')}`;
  await asAdministrator((client) => client.query(`create database ${name} template ${source}`));
  return {
    url: await urlOf(name),
    drop: () =>
      asAdministrator(
        async (client) => void (await client.query(`drop database if exists ${name} with (force)`)),
      ),
  };
}

/** Removes what these functions have made on a server. */
export async function removeTestDatabases(url: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    const { rows } = await client.query<{ datname: string }>(
      `select datname from pg_database where datname ~ '^(test_\\d+_[0-9a-f]{12}|template_[0-9a-f]{16}(_unfinished)?)$'`,
    );
    for (const { datname } of rows) {
      await client.query(`alter database ${datname} is_template false`);
      await client.query(`drop database ${datname} with (force)`);
    }
  } finally {
    await client.end();
  }
}

/** A pool for a test. It ignores the error of an idle connection, which comes when the database is dropped. */
export function createTestPool(url: string, options: Pick<pg.PoolConfig, 'max' | 'onConnect'> = {}): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, max: 5, ...options });
  pool.on('error', () => {});
  return pool;
}

async function filledTemplate(template: Template): Promise<string> {
  const name = `template_${createHash('sha256').update(template.name).digest('hex').slice(0, 16)}`;
  await asAdministrator(async (client) => {
    // The lock belongs to the session, so it is freed when the worker that fills the template dies.
    await client.query('select pg_advisory_lock(hashtext($1))', [name]);
    if (await exists(client, name)) return;
    const unfinished = `${name}_unfinished`;
    await client.query(`drop database if exists ${unfinished} with (force)`);
    await client.query(`create database ${unfinished}`);
    await template.fill(await urlOf(unfinished));
    // Backends stay for a moment after their clients closed, and a database with connections cannot be renamed.
    await client.query('select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1', [
      unfinished,
    ]);
    await client.query(`alter database ${unfinished} rename to ${name}`);
    await client.query(`alter database ${name} with allow_connections false is_template true`);
  });
  return name;
}

async function exists(client: pg.Client, name: string): Promise<boolean> {
  const found = await client.query('select 1 from pg_database where datname = $1', [name]);
  return found.rowCount === 1;
}

async function urlOf(name: string): Promise<string> {
  const url = new URL(await testPostgresUrl());
  url.pathname = `/${name}`;
  return url.href;
}

async function asAdministrator<Result>(work: (client: pg.Client) => Promise<Result>): Promise<Result> {
  const client = new pg.Client(await testPostgresUrl());
  client.on('error', () => {});
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
