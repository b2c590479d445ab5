import { sealLogOnce } from '@token-vault/audit';
import { eventRegistry } from '@token-vault/contracts';
import { createEventStoreDbEventStore } from '@token-vault/event-store/eventstoredb';
import { silentLogger } from '@token-vault/observability';
import { systemClock } from '@token-vault/operations';
import {
  createTestDatabase,
  createTestPool,
  type EventStoreDouble,
  hasDouble,
  lackOfDouble,
  startEventStoreDouble,
  type TestDatabase,
} from '@token-vault/test-support';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createBackup } from '../src/backup/create.ts';
import { identityOf } from '../src/backup/log-elsewhere.ts';
import { restoreBackup, type RestoreOptions } from '../src/backup/restore.ts';
import { writeTombstones } from '../src/backup/tombstones.ts';
import { readConfig } from '../src/config.ts';
import { createSourceVault, type SourceVault } from './source-vault.ts';

const { signal } = new AbortController();
const reactors = { stays: '', goneBetween: '', goneLater: '', newer: '' };
let place: string;
let server: EventStoreDouble;
let source: SourceVault;
let tenantId: string;
const closers: (() => Promise<void>)[] = [];

const at = (name: string) => path.join(place, name);
/** Copies of the server's files. */
const copies = { older: 'older-log', newer: 'newer-log' };
const eventStoreOf = ({ connectionString }: EventStoreDouble) =>
  ({ kind: 'eventstoredb', connectionString }) as const;
const loseKeyOf = (id: string) => source.keyRing.destroyKeysOfEntity(tenantId, `reactor:${id}`);
const make = async (name: keyof typeof reactors) => {
  reactors[name] = await source.makeReactor(tenantId);
};
const seal = () => {
  const { pool, store, keyRing } = source;
  const options = { pool, store, keyRing, clock: systemClock, logger: silentLogger };
  return sealLogOnce({ ...options, checkpointsFile: undefined });
};

beforeAll(async () => {
  place = await mkdtemp(path.join(tmpdir(), 'token-vault-backup-'));
  server = await startEventStoreDouble();
  source = await createSourceVault(eventStoreOf(server));
  tenantId = (await source.tenants.create({ name: 'Kept', plan: 'standard' })).tenantId;
  for (const name of ['stays', 'goneBetween', 'goneLater'] as const) await make(name);
  await seal();
  await server.tell(`save ${at(copies.older)}`);
  await loseKeyOf(reactors.goneBetween);
  const parts = { url: source.database.url, now: systemClock.now(), signal };
  await createBackup({
    ...parts,
    logElsewhere: await identityOf(source.store),
    directories: { log: at('backup'), keys: at('backup.keys') },
  });
  await loseKeyOf(reactors.goneLater);
  await make('newer');
  await seal();
  await server.tell(`save ${at(copies.newer)}`);
  await writeTombstones({ ...parts, logElsewhere: await identityOf(source.store), file: at('tombstones') });
});
afterAll(async () => {
  for (const close of [...closers, () => source.close(), () => server.stop()]) await close();
  await rm(place, { recursive: true });
});

interface Place {
  readonly target: EventStoreDouble;
  readonly database: TestDatabase;
}

/** A new server with the copy, or with an empty log, and an empty database. */
async function newPlace(copy?: string): Promise<Place> {
  const target = await startEventStoreDouble();
  closers.push(() => target.stop());
  if (copy !== undefined) await target.tell(`load ${at(copy)}`);
  const database = await createTestDatabase();
  closers.push(() => database.drop());
  return { target, database };
}

/** The position of the last event that the server has. */
async function headOf({ connectionString }: EventStoreDouble): Promise<string> {
  const store = createEventStoreDbEventStore({ registry: eventRegistry, connectionString });
  return store.head().finally(() => store.close());
}

const restoreInto = ({ target, database }: Place, options: Partial<RestoreOptions> = {}) =>
  restoreBackup({
    config: readConfig({
      DATABASE_URL: database.url,
      VAULT_ROOT_KEY: source.rootKey,
      VAULT_DATA_DIR: at('data'),
    }),
    eventStore: eventStoreOf(target),
    log: at('backup'),
    keys: at('backup.keys'),
    tombstones: at('tombstones'),
    isDespiteFindings: false,
    isDespiteNewerLog: false,
    signal,
    ...options,
  });

/** The reactors that the restored vault shows, and those that have a key. */
async function lookInto(database: TestDatabase) {
  const pool = createTestPool(database.url);
  const nameOf = (id: string) => Object.entries(reactors).find(([, each]) => each === id)?.[0] ?? id;
  const list = async (sql: string) =>
    (await pool.query<{ id: string }>(sql)).rows.map(({ id }) => nameOf(id)).sort();
  try {
    return {
      shown: await list('select id::text from rm_reactors.reactor'),
      withKeys: await list(
        `select split_part(entity, ':', 2) as id from key_ring.data_key where entity like 'reactor:%'`,
      ),
    };
  } finally {
    await pool.end();
  }
}

describe('a backup of a vault whose log is in EventStoreDB', () => {
  it('has the key ring, and of the log only its identity', async () => {
    expect(await readdir(at('backup'))).toEqual(['idempotent-answers.copy.gz', 'manifest.json']);
    expect(await readdir(at('backup.keys'))).toContain('data-keys.copy.gz');
  });

  it('restores beside an older copy of the log; destroyed data stays destroyed', async () => {
    const there = await newPlace(copies.older);
    const report = await restoreInto(there);
    expect(report).toMatchObject({ keysLeftOut: 1, ended: 2, audit: { unsealed: 0, findings: [] } });
    expect(report.audit.checkpoints).toBeGreaterThan(0);
    expect(await lookInto(there.database)).toEqual({ shown: ['stays'], withKeys: ['stays'] });
  });

  it('opens data that was deleted after it, without tombstones', async () => {
    const there = await newPlace(copies.older);
    expect(await restoreInto(there, { tombstones: undefined })).toMatchObject({ keysLeftOut: 0, ended: 1 });
    const both = ['goneLater', 'stays'];
    expect(await lookInto(there.database)).toEqual({ shown: both, withKeys: both });
  });

  it('is refused beside a newer log, unless the tokens made since may be ended', async () => {
    const there = await newPlace(copies.newer);
    const head = await headOf(there.target);
    await expect(restoreInto(there)).rejects.toThrow('is newer than the key ring');
    expect(await headOf(there.target)).toBe(head);
    expect(await restoreInto(there, { isDespiteNewerLog: true })).toMatchObject({ ended: 3 });
    expect(await lookInto(there.database)).toEqual({ shown: ['stays'], withKeys: ['stays'] });
  });

  it('is refused beside the log of another vault, an empty log, or a log in Postgres', async () => {
    const other = await newPlace();
    await expect(restoreInto(other)).rejects.toThrow('is empty');
    const stranger = await createSourceVault(eventStoreOf(other.target));
    await stranger.tenants.create({ name: 'Other', plan: 'standard' }).finally(() => stranger.close());
    await expect(restoreInto(other)).rejects.toThrow('is that of another vault');
    const postgres = restoreInto(other, { eventStore: { kind: 'postgres' } });
    await expect(postgres).rejects.toThrow('set EVENT_STORE and EVENTSTOREDB_URL');
  });

  // No server alters an event when it is told to.
  it.skipIf(!hasDouble)(
    `is refused beside a copy of the log that was altered, and the log gets no event${lackOfDouble}`,
    async () => {
      const there = await newPlace(copies.older);
      await there.target.tell('alter ReactorCreated "Reactor" "Reacter"');
      const head = await headOf(there.target);
      await expect(restoreInto(there)).rejects.toThrow('the log of the backup was altered: 1 findings');
      expect(await headOf(there.target)).toBe(head);
    },
  );
});
