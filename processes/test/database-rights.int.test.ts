import { createLogger, createMetrics } from '@token-vault/observability';
import { createTestDatabase, createTestPool, type TestDatabase } from '@token-vault/test-support';
import type { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { reportDatabaseRights } from '../src/index.ts';

/** Roles belong to the server, which the tests of other files use too. */
const role = `rights_${process.pid}`;
const password = 'of a test';

let database: TestDatabase;
let pool: Pool;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = createTestPool(database.url, { max: 1 });
  await pool.query(`create role ${role} login password '${password}'; create role ${role}_group`);
});
afterAll(async () => {
  await pool.query(`drop role ${role}, ${role}_group`);
  await pool.end();
  await database.drop();
});

async function reported(databaseUrl: string) {
  const lines: Record<string, unknown>[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line) as never) };
  const logger = createLogger({ service: 'test', level: 'info', destination });
  const metrics = createMetrics('test');
  await reportDatabaseRights({
    settings: { databaseUrl, eventStore: { kind: 'postgres' } },
    logger,
    metrics,
  });
  const text = await metrics.registry.metrics();
  const rights = [...text.matchAll(/^vault_database_right\{right="(\w+)",.*\} 1$/gm)].map(([, name]) => name);
  return { lines, rights, isKnown: /^vault_database_right\{right="superuser",.*\} [01]$/m.test(text) };
}

function urlOfRole(): string {
  const url = new URL(database.url);
  url.searchParams.set('user', role);
  url.searchParams.set('password', password);
  return url.href;
}

describe('the role of DATABASE_URL', () => {
  it('is reported in one line when it is a superuser', async () => {
    const { lines, rights } = await reported(database.url);
    expect(lines).toMatchObject([{ level: 40, reason: 'superuser' }]);
    expect(rights).toContain('superuser');
  });

  it('is reported with the right that it has by way of another role', async () => {
    await pool.query(`grant pg_read_server_files to ${role}_group; grant ${role}_group to ${role}`);
    const { lines, rights } = await reported(urlOfRole());
    expect(lines).toMatchObject([{ level: 40, reason: 'pg_read_server_files' }]);
    expect(rights).toEqual(['pg_read_server_files']);
    await pool.query(`revoke pg_read_server_files from ${role}_group`);
  });

  it('is not reported when it has none of these rights', async () => {
    expect(await reported(urlOfRole())).toEqual({ lines: [], rights: [], isKnown: true });
  });

  it('does not prevent the start when it cannot be asked', async () => {
    const { lines } = await reported('postgres://nobody@127.0.0.1:1/none');
    expect(lines).toMatchObject([{ level: 40, msg: expect.stringContaining('not known') as string }]);
  });
});
