import { streams } from '@token-vault/contracts';
import { systemClock } from '@token-vault/operations';
import { createTestDatabase, createTestPool, runCommand, type TestDatabase } from '@token-vault/test-support';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createBackup } from '../src/backup/create.ts';
import { restoreBackup, type RestoreOptions } from '../src/backup/restore.ts';
import { writeTombstones } from '../src/backup/tombstones.ts';
import { readConfig } from '../src/config.ts';
import { createSourceVault, type SourceVault } from './source-vault.ts';

const { signal } = new AbortController();
let place: string;
let source: SourceVault;
let kept: string;
let deleted: string;
let reactorId: string;
const databases: TestDatabase[] = [];

const at = (name: string) => path.join(place, name);
const back = (name: string) =>
  createBackup({
    url: source.database.url,
    directories: { log: at(name), keys: at(`${name}.keys`) },
    now: systemClock.now(),
    signal,
  });

const writeList = (name: string) =>
  writeTombstones({ url: source.database.url, file: at(name), now: systemClock.now(), signal });

beforeAll(async () => {
  place = await mkdtemp(path.join(tmpdir(), 'token-vault-backup-'));
  source = await createSourceVault({ kind: 'postgres' });
  const { keyRing, tenants } = source;
  [kept, deleted] = [
    (await tenants.create({ name: 'Kept', plan: 'standard' })).tenantId,
    (await tenants.create({ name: 'Deleted', plan: 'standard' })).tenantId,
  ];
  reactorId = await source.makeReactor(kept);
  await back('first');
  // Like a deletion, before the backup has its event.
  await keyRing.destroyAllOfTenant(deleted);
  await keyRing.destroyKeysOfEntity(kept, `reactor:${reactorId}`);
  await tenants.setPlan(kept, 'enterprise');
  await back('second');
  await writeList('tombstones');
});
afterAll(async () => {
  await source.close();
  for (const database of databases) await database.drop();
  await rm(place, { recursive: true });
});

async function emptyDatabase(): Promise<TestDatabase> {
  const database = await createTestDatabase();
  databases.push(database);
  return database;
}

const restoreInto = (database: TestDatabase, options: Partial<RestoreOptions> = {}) =>
  restoreBackup({
    config: readConfig({
      DATABASE_URL: database.url,
      VAULT_ROOT_KEY: source.rootKey,
      VAULT_DATA_DIR: at('data'),
    }),
    log: at('first'),
    keys: at('first.keys'),
    tombstones: undefined,
    eventStore: { kind: 'postgres' },
    isDespiteFindings: false,
    isDespiteNewerLog: false,
    signal,
    ...options,
  });

/**
 * The tenants with keys, the tenants whose keys are destroyed for ever, and the actor who ended the deleted tenant.
 */
async function lookInto(database: TestDatabase) {
  const restored = createTestPool(database.url);
  const list = async (sql: string, values: unknown[] = []) =>
    (await restored.query<{ found: string }>(sql, values)).rows.map(({ found }) => found).sort();
  try {
    return {
      withKeys: await list('select distinct tenant_id::text as found from key_ring.tenant_key'),
      withData: await list('select distinct tenant_id::text as found from key_ring.data_key'),
      destroyed: await list('select tenant_id::text as found from key_ring.destroyed_tenant'),
      ends: await list(
        `select metadata->'actor'->>'id' as found from event_store.event where stream = $1 and type = 'TenantDeleted'`,
        [streams.tenant(deleted)],
      ),
      reactorEnds: await list(
        `select metadata->'actor'->>'id' as found from event_store.event where stream = $1 and type = 'ReactorDeleted'`,
        [streams.reactor(kept, reactorId)],
      ),
      shown: await list('select id::text as found from rm_tenants.tenant where not is_deleted'),
    };
  } finally {
    await restored.end();
  }
}

const withoutDeleted = () => ({
  withKeys: [kept],
  withData: [kept],
  destroyed: [deleted],
  ends: ['restore'],
  reactorEnds: ['restore'],
  shown: [kept],
});

describe('a tenant and a reactor that were deleted after the backup', () => {
  it('are restored without tombstones or a younger key ring', async () => {
    const database = await emptyDatabase();
    await restoreInto(database);
    expect(await lookInto(database)).toEqual({
      withKeys: [kept, deleted].sort(),
      withData: [kept, deleted].sort(),
      destroyed: [],
      ends: [],
      reactorEnds: [],
      shown: [kept, deleted].sort(),
    });
  });

  it('stay deleted by the tombstones', async () => {
    const database = await emptyDatabase();
    const report = await restoreInto(database, { tombstones: at('tombstones') });
    expect(report).toMatchObject({ keysLeftOut: 2, ended: 2 });
    expect(await lookInto(database)).toEqual(withoutDeleted());
  });

  it('stay deleted by a younger key ring', async () => {
    const database = await emptyDatabase();
    await restoreInto(database, { keys: at('second.keys') });
    expect(await lookInto(database)).toEqual(withoutDeleted());
  });
});

describe('a reactor that was made after the first backup and deleted after the next', () => {
  it('stays deleted when the next one is restored', async () => {
    const made = await source.makeReactor(kept);
    await back('third');
    await source.keyRing.destroyKeysOfEntity(kept, `reactor:${made}`);
    await writeList('after-third');
    const database = await emptyDatabase();
    const third = { log: at('third'), keys: at('third.keys'), tombstones: at('after-third') };
    expect(await restoreInto(database, third)).toMatchObject({ keysLeftOut: 1 });
    const restored = createTestPool(database.url);
    const { rows } = await restored.query('select from key_ring.data_key where entity = $1', [
      `reactor:${made}`,
    ]);
    await restored.end();
    expect(rows).toEqual([]);
  });
});

describe('the checkpoints that a vault remembers outside its log', () => {
  const commandOn = (database: TestDatabase, ...args: string[]) =>
    runCommand(at('data'), ['audit', ...args], {
      DATABASE_URL: database.url,
      VAULT_ROOT_KEY: source.rootKey,
      VAULT_CHECKPOINTS_FILE: at('last-checkpoints'),
    });

  it('are forgotten by a restore of an older log, or by its operator, as the how-to says', async () => {
    await commandOn(source.database, 'seal');
    await back('sealed');
    await source.makeReactor(kept);
    expect(await commandOn(source.database, 'seal')).toMatchObject({ stdout: '1 checkpoints signed\n' });
    const ofNewerLog = await readFile(at('last-checkpoints'), 'utf8');

    const database = await emptyDatabase();
    const config = readConfig({
      DATABASE_URL: database.url,
      VAULT_ROOT_KEY: source.rootKey,
      VAULT_DATA_DIR: at('data'),
      VAULT_CHECKPOINTS_FILE: at('last-checkpoints'),
    });
    await restoreInto(database, { log: at('sealed'), keys: at('sealed.keys'), config });
    expect(await commandOn(database, 'seal')).toMatchObject({ code: 0 });

    // As if the restore did not know of the file.
    await writeFile(at('last-checkpoints'), ofNewerLog);
    const refused = `vault: the log of tenant ${kept} is not sealed any more`;
    const again = await commandOn(database, 'seal', '--whole');
    expect(again.stderr).toContain(refused);
    await rename(at('last-checkpoints'), at('last-checkpoints.before'));
    expect(await commandOn(database, 'seal', '--whole')).toMatchObject({ code: 0, stderr: '' });
    expect(await commandOn(database, 'verify', '--no-rows')).toMatchObject({ code: 0 });
  });
});

describe('a restore into a database', () => {
  it('refuses a key ring that is older than the log', async () => {
    const restore = restoreInto(await emptyDatabase(), { log: at('second') });
    await expect(restore).rejects.toThrow('the key ring is older than the log');
  });

  it('refuses tombstones that were made before the backup: newer keys would be taken for destroyed', async () => {
    await writeList('early');
    await source.makeReactor(kept);
    await back('fourth');
    const restore = restoreInto(await emptyDatabase(), {
      log: at('fourth'),
      keys: at('fourth.keys'),
      tombstones: at('early'),
    });
    await expect(restore).rejects.toThrow('was made before the backup');
  });

  it('refuses them by their time too: a restored vault has lower positions than the earlier one', async () => {
    await back('fifth');
    const now = new Date(systemClock.now().getTime() - 60_000);
    await writeTombstones({ url: source.database.url, file: at('old'), now, signal });
    const restore = restoreInto(await emptyDatabase(), {
      log: at('fifth'),
      keys: at('fifth.keys'),
      tombstones: at('old'),
    });
    await expect(restore).rejects.toThrow('was made before the backup');
  });

  it.each([
    ['a file that is not there', (file: string) => rm(file, { force: true }), 'cannot be read (ENOENT)'],
    [
      'a list of the first release',
      (file: string) => writeFile(file, '{"format":"token-vault tombstones"}\n'),
      'make a new one',
    ],
  ])('refuses %s', async (_, prepare, complaint) => {
    await prepare(at('unusable'));
    const restore = restoreInto(await emptyDatabase(), { tombstones: at('unusable') });
    await expect(restore).rejects.toThrow(complaint);
  });

  it('refuses one that is not empty', async () => {
    await expect(restoreInto(source.database)).rejects.toThrow('is not empty');
  });

  it('leaves it empty when the root key is a different one, so that the restore can be repeated', async () => {
    const database = await emptyDatabase();
    const other = randomBytes(32).toString('base64');
    const config = readConfig({
      DATABASE_URL: database.url,
      VAULT_ROOT_KEY: other,
      VAULT_DATA_DIR: at('data'),
    });
    await expect(restoreInto(database, { config })).rejects.toThrow('wrong root key');
    await restoreInto(database);
    expect((await lookInto(database)).withKeys).toHaveLength(2);
  });
});
