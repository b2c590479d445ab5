import {
  cardToken,
  createDataDirectory,
  createTestDatabase,
  createTestPool,
  plainApplication,
  removeDataDirectory,
  spawnStandalone,
  startStandaloneProcess,
} from '@token-vault/test-support';
import { randomBytes } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startEmbeddedPostgres } from '@token-vault/embedded-postgres';

interface Made {
  readonly id: string;
  readonly key: string;
}

let dataDir: string;
let key: string;
let tokenId: string;

beforeAll(async () => {
  dataDir = await createDataDirectory();
  const vault = await startStandaloneProcess({ dataDir });
  const made = await vault.client().expect<Made>(201, 'POST', '/applications', { body: plainApplication() });
  key = made.body.key;
  const token = await vault.client(key).expect<Made>(201, 'POST', '/tokens', { body: cardToken() });
  tokenId = token.body.id;
  await vault.stop();
});
afterAll(() => removeDataDirectory(dataDir));

/** Starts a vault that must fail with status 1 and one line on stderr, and gives that line. */
async function complaintOf(env: Readonly<Record<string, string>> = {}, directory = dataDir): Promise<string> {
  const vault = spawnStandalone({ dataDir: directory, env });
  // A vault that starts all the same would run until the time limit of the test.
  const ending = setInterval(() => {
    if (vault.output().includes('vault ready')) vault.signal('SIGTERM');
  }, 100);
  const exit = await vault.exited.finally(() => clearInterval(ending));
  expect({ ...exit, output: vault.output() }).toMatchObject({ code: 1, signal: null });
  expect(vault.output()).not.toContain('vault ready');
  expect(vault.errors()).toMatch(/^vault: .+\n$/);
  return vault.errors();
}

/** Changes the database of a stopped vault. */
async function alterDatabase(sql: string): Promise<void> {
  const postgres = await startEmbeddedPostgres({ dataDir: path.join(dataDir, 'postgres') });
  const pool = createTestPool(postgres.url);
  await pool.query(sql);
  await pool.end();
  await postgres.stop();
}

describe('a setting that is wrong', () => {
  it.each([
    [{ VAULT_PORT: 'http' }, /VAULT_PORT must be a number from 0 to 65535/],
    [{ VAULT_TRUST_PROXY: 'banana' }, /VAULT_TRUST_PROXY must be a number of hops, or addresses/],
    [{ VAULT_HOST: '192.0.2.1' }, /is not on an address of this machine; check VAULT_HOST/],
    [
      { DATABASE_URL: 'postgres://vault@127.0.0.1:1/vault' },
      /DATABASE_URL.* at 127\.0\.0\.1:1.* ECONNREFUSED/,
    ],
    [{ DATABASE_URL: 'postgres://vault@no-such-host.invalid/vault' }, /DATABASE_URL.*no-such-host\.invalid/],
  ])('%o is named in one line', async (env, complaint) => {
    expect(await complaintOf(env)).toMatch(complaint);
  });

  it('is reported without the password of DATABASE_URL', async () => {
    const database = await createTestDatabase();
    const url = new URL(database.url);
    url.pathname = '/no_such_database';
    url.searchParams.set('application_name', 'hunter2');
    const complaint = await complaintOf({ DATABASE_URL: url.href });
    expect(complaint).toMatch(/DATABASE_URL.*database "no_such_database" does not exist/);
    expect(complaint).not.toContain(url.searchParams.get('password') ?? url.password);
    await database.drop();
  });
});

describe('a port that is taken', () => {
  it('is named, and the database is not changed', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => other.once('listening', resolve));
    const { port } = other.address() as AddressInfo;
    expect(await complaintOf({ VAULT_PORT: String(port) })).toMatch(
      new RegExp(`port ${port} on 127.0.0.1 is taken by another process; set VAULT_PORT`),
    );
    other.close();
  });
});

describe('a data directory', () => {
  it('that another vault uses is refused, and that vault continues', async () => {
    const vault = await startStandaloneProcess({ dataDir });
    expect(await complaintOf()).toContain(`is in use by another vault (process ${vault.pid})`);
    await vault.client(key).expect(200, 'GET', `/tokens/${tokenId}`);
    expect(await vault.stop()).toEqual({ code: 0, signal: null });
  });

  it('that two vaults start on at once, for the first time, is given to one', async () => {
    const fresh = await createDataDirectory();
    const starts = await Promise.allSettled([0, 1].map(() => startStandaloneProcess({ dataDir: fresh })));
    const [lost] = starts.filter((start) => start.status === 'rejected');
    expect(starts.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect(String(lost?.reason)).toContain('is in use by another vault');
    await removeDataDirectory(fresh);
  });

  it('that cannot be written is named', async () => {
    const blocked = await createDataDirectory();
    const file = path.join(blocked, 'a-file');
    await writeFile(file, '');
    expect(await complaintOf({}, path.join(file, 'vault'))).toMatch(
      /cannot write to the data directory .*EEXIST/,
    );
    expect(await complaintOf({}, file)).toMatch(/cannot write to the data directory .*EEXIST/);
    expect(await complaintOf({}, '/proc/vault')).toMatch(/cannot write to the data directory \/proc\/vault/);
    const closed = path.join(blocked, 'closed');
    await mkdir(closed, { mode: 0o555 });
    // Root may write anywhere. Then the directory above is closed to the account of Postgres.
    if (process.getuid?.() === 0) await chmod(blocked, 0o700);
    expect(await complaintOf({}, closed)).toMatch(/cannot write to the data directory|may not enter/);
    await removeDataDirectory(blocked);
  });

  it('of a newer version is refused and not changed', async () => {
    await alterDatabase(`insert into schema_migration (name) values ('event-store/999 (of tomorrow) -')`);
    expect(await complaintOf()).toMatch(
      /"event-store" is at 999, this release knows up to \d+: start the newer/,
    );
    await alterDatabase(`delete from schema_migration where name like '%of tomorrow%'`);
  });

  it('whose log may hold events of a newer version is refused and not changed', async () => {
    await alterDatabase(`insert into schema_migration (name) values ('events/999 (of tomorrow) -')`);
    expect(await complaintOf()).toMatch(/"events" is at 999, this release knows up to \d+: start the newer/);
    await alterDatabase(`delete from schema_migration where name like '%of tomorrow%'`);
  });

  it('with tables that this release does not know is refused and not changed', async () => {
    await alterDatabase(`insert into schema_migration (name) values ('counters/1 (of tomorrow) -')`);
    expect(await complaintOf()).toMatch(/the schema "counters", which this release does not know/);
    await alterDatabase(`delete from schema_migration where name like 'counters/%'`);
  });

  it('in which a restore was cut off is refused', async () => {
    const fresh = await createDataDirectory();
    await mkdir(path.join(fresh, 'postgres.restoring-12345678'));
    expect(await complaintOf({}, fresh)).toMatch(/a restore into .* is not complete: repeat it/);
    expect(await readdir(fresh)).toEqual(['postgres.restoring-12345678']);
    await removeDataDirectory(fresh);
  });

  it('of another Postgres version is refused with the reason', async () => {
    const file = path.join(dataDir, 'postgres/cluster/data/PG_VERSION');
    const version = await readFile(file, 'utf8');
    await writeFile(file, '99\n');
    expect(await complaintOf()).toMatch(/database files are incompatible with server/);
    await writeFile(file, version);
  });
});

describe('a root key', () => {
  it('of another vault is refused', async () => {
    const complaint = await complaintOf({ VAULT_ROOT_KEY: randomBytes(32).toString('base64') });
    expect(complaint).toMatch(/root key/);
    expect(await complaintOf({ VAULT_ROOT_KEY: 'short' })).toMatch(
      /VAULT_ROOT_KEY is not a root key: expected 32/,
    );
  });

  it('whose file is missing is not replaced by a new one', async () => {
    const file = path.join(dataDir, 'root.key');
    await rename(file, `${file}.away`);
    expect(await complaintOf()).toMatch(/root key file .*root\.key is missing: put back the file/);
    await expect(readFile(file)).rejects.toThrow('ENOENT');
    await rename(`${file}.away`, file);
  });

  it('that others can read is refused', async () => {
    const file = path.join(dataDir, 'root.key');
    await chmod(file, 0o644);
    expect(await complaintOf()).toMatch(/is open to others \(mode 644\): run chmod 600/);
    await chmod(file, 0o600);
  });
});

it('a vault that was refused all these times is unharmed', async () => {
  const vault = await startStandaloneProcess({ dataDir });
  await vault.client(key).expect(200, 'GET', `/tokens/${tokenId}`);
  await vault.client().expect(200, 'GET', '/applications');
  await vault.stop();
});
