import { createKeyRing, TenantKeysMissingError, type KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import { systemClock } from '@token-vault/operations';
import { rm } from 'node:fs/promises';
import { createPool } from '@token-vault/postgres';
import type pg from 'pg';
import { countFindings, verifyAudit, type AuditReport } from '@token-vault/audit';
import { createSignatureCheck } from '@token-vault/command-service';
import {
  finishRestore,
  migrate,
  SchemaTooNewError,
  SchemaUnknownError,
  unfinishedRestore,
} from '@token-vault/processes/migrations';
import {
  Closers,
  ignoreIdleConnectionErrors,
  openEventStore,
  openRootKeys,
  requireRootKey,
  schema,
  type EventStoreChoice,
} from '@token-vault/processes';
import type { StandaloneConfig } from '../config.ts';
import { makeDataDirectory } from '../data-directory.ts';
import { openBundle, type Bundle } from './bundle-reader.ts';
import { BackupError, type Manifest } from './format.ts';
import { insertKeys, insertLog } from './load.ts';
import { identityOf, requireSameLog } from './log-elsewhere.ts';
import { endEntitiesWithoutKey } from './lost-entities.ts';
import { makeReadModels, unitOf, type ReportProgress } from './read-models.ts';
import { openRestoreTarget, type RestoreTarget } from './target.ts';
import { openTombstones, type Tombstones } from './tombstones.ts';

export interface RestoreOptions {
  readonly config: StandaloneConfig;
  /** Where the log is. In another server it is there already, restored by the tools of that server. */
  readonly eventStore: EventStoreChoice;
  readonly log: string;
  /** Undefined: only the log is restored, and its data can never be opened. */
  readonly keys: string | undefined;
  readonly tombstones: string | undefined;
  /** True: restores even when the log does not match its signatures. */
  readonly isDespiteFindings: boolean;
  /** True: restores even when a log in another server is newer than the key ring, and ends what was made in between. */
  readonly isDespiteNewerLog: boolean;
  readonly signal: AbortSignal;
  readonly onStep?: (step: string) => void;
  readonly onProgress?: ReportProgress;
}

export interface RestoreReport {
  readonly position: string;
  readonly createdAt: string;
  readonly root: string;
  /** The number of data keys of the backup that were not restored. */
  readonly keysLeftOut: number;
  /** The number of tokens, reactors and tenants that were ended by an event because their keys are gone. */
  readonly ended: number;
  readonly audit: AuditReport;
}

interface Opened {
  readonly log: Bundle;
  readonly keys: Bundle | undefined;
  readonly tombstones: Tombstones | undefined;
}

/** Makes all checks that can refuse the restore before anything is written. @throws BackupError, SchemaTooNewError */
async function openAll({
  log: logAt,
  keys: keysAt,
  tombstones: file,
  eventStore,
  signal,
}: RestoreOptions): Promise<Opened> {
  const log = await openBundle(logAt, 'log');
  if (log.hasLog !== (eventStore.kind === 'postgres'))
    throw new BackupError(
      log.hasLog
        ? 'the backup holds a log from Postgres: restore it without EVENT_STORE'
        : 'the backup is of a vault whose log is in EventStoreDB: set EVENT_STORE and EVENTSTOREDB_URL',
    );
  requireKnownSchema(log);
  const keys = keysAt === undefined ? undefined : await openBundle(keysAt, 'keys');
  if (keys) {
    requireKnownSchema(keys);
    requireSameVault(log, keys);
  }
  const tombstones = file === undefined ? undefined : await openTombstones(file, (keys ?? log).manifest);
  await log.check(signal);
  await keys?.check(signal);
  return { log, keys, tombstones };
}

function requireKnownSchema({ manifest }: Bundle): void {
  for (const [name, found] of Object.entries(manifest.schema)) {
    const set = schema.find((each) => each.name === name);
    if (!set) throw new SchemaUnknownError(name);
    const known = set.migrations.at(-1)?.id ?? 0;
    if (found > known) throw new SchemaTooNewError(name, found, known);
  }
}

/** A younger key ring is accepted too: it has all keys of that time, except those destroyed in between. */
function requireSameVault(log: Bundle, keys: Bundle): void {
  if (keys.manifest.log.id !== log.manifest.log.id)
    throw new BackupError('the key ring is that of another vault');
  if (BigInt(keys.manifest.log.position) < BigInt(log.manifest.log.position))
    throw new BackupError(
      'the key ring is older than the log: data that was stored in between could not be opened',
    );
  if (JSON.stringify(keys.manifest.schema) !== JSON.stringify(log.manifest.schema))
    throw new BackupError('the key ring and the log are of different releases: restore those of one backup');
}

/** The tables as they were at the time of the backup, so that later migrations find the schema that they expect. */
const schemaOf = ({ manifest }: Bundle) =>
  schema.map(({ name, migrations }) => ({
    name,
    migrations: migrations.filter(({ id }) => id <= (manifest.schema[name] ?? 0)),
  }));

/**
 * Makes a vault from a backup, checks it, and only then puts it into its place. Log and keys are loaded, without the
 * keys that the tombstones exclude. Every signature of the log is checked. Entities that lost their key are ended by
 * an event. The read models are rebuilt.
 * @throws BackupError, SchemaTooNewError, WrongRootKeyError, RootKeyUnusableError …
 */
export async function restoreBackup(options: RestoreOptions): Promise<RestoreReport> {
  const { config, onStep, signal } = options;
  onStep?.('checking the backup');
  const opened = await openAll(options);
  if (opened.keys) {
    const { rootKeyFile } = await makeDataDirectory(config.dataDir);
    await requireRootKey({ ...config, rootKeyFile });
  }
  const target = await openRestoreTarget(config);
  const closers = new Closers();
  try {
    const report = await restoreInto(target, opened, options, closers);
    signal.throwIfAborted();
    await closers.close();
    // The file is of the log that was here before, and may be newer than the restored one.
    await rm(config.checkpointsFile ?? target.directory.checkpointsFile, { force: true });
    await target.publish();
    return report;
  } finally {
    await closers.close();
    await target.abandon();
  }
}

async function restoreInto(
  { url, directory }: RestoreTarget,
  opened: Opened,
  options: RestoreOptions,
  closers: Closers,
): Promise<RestoreReport> {
  const { config, eventStore, onStep, signal } = options;
  const { log, keys, tombstones } = opened;
  const storage = { requireSpace: () => undefined };
  const store = closers.add(await openEventStore({ databaseUrl: url, eventStore }, { storage }), (it) =>
    it.close(),
  );
  const at = log.hasLog ? log.manifest.log : await findLog(store, opened, options);
  const loading = {
    url,
    signal,
    onPart: (name: string, rows: number) => onStep?.(`loading ${rows} ${name.replaceAll('-', ' ')}`),
  };
  // The mark is set first and removed last: a start refuses a database with the mark.
  await migrate(url, [unfinishedRestore]);
  await migrate(url, [unfinishedRestore, ...schemaOf(log)]);
  const pool = closers.add(createPool({ connectionString: url, max: 3 }), (it) => it.end());
  ignoreIdleConnectionErrors(pool);
  const keysLeftOut = keys ? await insertKeys(keys, tombstones, systemClock.now(), loading) : 0;
  // Checks before the long part whether the root key is the right one.
  const keyRing = keys ? await openKeyRing(pool, config, directory.rootKeyFile) : undefined;
  await insertLog(log, loading);
  await migrate(url, [unfinishedRestore, ...schema]);
  const audit = await verify(store, keyRing, options);
  await makeReadModels(store, url, options);
  const ended = keyRing ? await endDeleted({ store, keyRing, pool, url, signal }, options) : 0;
  await finishRestore(pool);
  const { position } = at;
  return {
    position,
    createdAt: log.manifest.created_at,
    root: directory.root,
    keysLeftOut,
    ended,
    audit,
  };
}

/** Ends the entities whose keys were destroyed after the backup. Gives their number. */
async function endDeleted(
  parts: Parameters<typeof endEntitiesWithoutKey>[0],
  options: RestoreOptions,
): Promise<number> {
  options.onStep?.('ending what was deleted since');
  const ended = await endEntitiesWithoutKey(parts);
  await makeReadModels(parts.store, parts.url, options);
  return ended;
}

/** @throws BackupError unless the log in the other server is the one of the backup. */
async function findLog(
  store: EventStore,
  { log, keys }: Opened,
  { isDespiteNewerLog }: RestoreOptions,
): Promise<Manifest['log']> {
  const found = await identityOf(store);
  // Without keys nothing opens, whatever the age of the log.
  requireSameLog(found, (keys ?? log).manifest, isDespiteNewerLog || !keys);
  return found;
}

async function openKeyRing(pool: pg.Pool, config: StandaloneConfig, rootKeyFile: string): Promise<KeyRing> {
  const rootKeys = await openRootKeys({ ...config, rootKeyFile }, pool);
  return createKeyRing({ pool, ...rootKeys, clock: systemClock, durability: 'own' });
}

/** Without a key ring no tenant has keys, so checkpoints are checked by the public key that they name. */
const withoutKeys: Pick<KeyRing, 'hashes'> = {
  hashes: (tenantId) => Promise.reject(new TenantKeysMissingError(tenantId)),
};

async function verify(
  store: EventStore,
  keyRing: KeyRing | undefined,
  { isDespiteFindings, signal, onProgress }: RestoreOptions,
): Promise<AuditReport> {
  const sources = { store, keyRing: keyRing ?? withoutKeys };
  const audit = await verifyAudit({
    ...sources,
    checkSignatures: createSignatureCheck(sources),
    signal,
    onProgress: (position, until) =>
      onProgress?.('verify events', Number(position), Number(until), unitOf(store)),
  });
  const [first] = audit.findings;
  if (first && !isDespiteFindings)
    throw new BackupError(
      `the log of the backup was altered: ${countFindings(audit)} findings, the first at position ${first.position}: ${first.problem}`,
    );
  return audit;
}
