import { createLostKeys } from '@token-vault/command-service';
import { eventRegistry } from '@token-vault/contracts';
import { createKeyRing, TenantKeysMissingError, type KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import { createPostgresEventStore } from '@token-vault/event-store/postgres';
import { projections, startProjectors } from '@token-vault/projectors';
import { systemClock } from '@token-vault/operations';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { verifyAudit, type AuditReport } from '@token-vault/audit';
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
  openRootKeys,
  requireRootKey,
  schema,
} from '@token-vault/processes';
import type { StandaloneConfig } from '../config.ts';
import { openDataDirectory } from '../data-directory.ts';
import { openBundle, type Bundle } from './bundle-reader.ts';
import { missingKeys } from './destroyed-keys.ts';
import { BackupError } from './format.ts';
import { loadKeys, loadLog } from './load.ts';
import { openRestoreTarget, type RestoreTarget } from './target.ts';
import { openTombstones, type Tombstones } from './tombstones.ts';

export interface RestoreOptions {
  readonly config: StandaloneConfig;
  readonly log: string;
  /** Undefined: only the log is restored, and its data can never be opened. */
  readonly keys: string | undefined;
  readonly tombstones: string | undefined;
  /** True: restores even when the log does not match its signatures. */
  readonly isDespiteFindings: boolean;
  readonly signal: AbortSignal;
  readonly onStep?: (step: string) => void;
  readonly onProgress?: (step: string, done: number, total: number) => void;
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
  signal,
}: RestoreOptions): Promise<Opened> {
  const log = await openBundle(logAt, 'log');
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
    throw new BackupError('the key ring is older than the log: what was made in between could not be opened');
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
    const { rootKeyFile } = await openDataDirectory(config.dataDir);
    await requireRootKey({ ...config, rootKeyFile });
  }
  const target = await openRestoreTarget(config);
  const closers = new Closers();
  try {
    const report = await restoreInto(target, opened, options, closers);
    signal.throwIfAborted();
    await closers.close();
    await target.publish();
    return report;
  } finally {
    await closers.close();
    await target.abandon();
  }
}

async function restoreInto(
  target: RestoreTarget,
  { log, keys, tombstones }: Opened,
  options: RestoreOptions,
  closers: Closers,
): Promise<RestoreReport> {
  const { config, onStep, signal } = options;
  const { url, directory } = target;
  const loading = {
    url,
    signal,
    onPart: (name: string, rows: number) => onStep?.(`loading ${rows} ${name.replaceAll('-', ' ')}`),
  };
  // The mark is set first and removed last: a start refuses a database with the mark.
  await migrate(url, [unfinishedRestore]);
  await migrate(url, [unfinishedRestore, ...schemaOf(log)]);
  const pool = closers.add(new pg.Pool({ connectionString: url, max: 3 }), (it) => it.end());
  ignoreIdleConnectionErrors(pool);
  const keysLeftOut = keys ? await loadKeys(keys, tombstones, systemClock.now(), loading) : 0;
  // Checks before the long part whether the root key is the right one.
  const keyRing = keys ? await openKeyRing(pool, config, directory.rootKeyFile) : undefined;
  await loadLog(log, loading);
  await migrate(url, [unfinishedRestore, ...schema]);
  const store = closers.add(
    createPostgresEventStore({ registry: eventRegistry, connection: { connectionString: url } }),
    (it) => it.close(),
  );
  const audit = await verify(store, keyRing, options);
  const ended = keys
    ? await endWhatLostItsKey({ store, keyRing: keyRing ?? withoutKeys, pool, url, log }, options)
    : 0;
  await rebuildReadModels(store, url, options);
  await finishRestore(pool);
  const { created_at: createdAt, log: at } = log.manifest;
  return { position: at.position, createdAt, root: directory.root, keysLeftOut, ended, audit };
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
  const audit = await verifyAudit({
    store,
    keyRing: keyRing ?? withoutKeys,
    signal,
    onProgress: (position, until) => onProgress?.('verify events', Number(position), Number(until)),
  });
  const [first] = audit.findings;
  if (first && !isDespiteFindings)
    throw new BackupError(
      `the log of the backup was altered: ${audit.findings.length} findings, the first at position ${first.position}: ${first.problem}`,
    );
  return audit;
}

interface Ending {
  readonly store: EventStore;
  readonly keyRing: Pick<KeyRing, 'hashes'>;
  readonly pool: pg.Pool;
  readonly url: string;
  readonly log: Bundle;
}

const atOnce = 64;

/**
 * Records the deletions made after the backup. The backed-up log does not have them, and the restored log must match
 * the restored keys.
 */
async function endWhatLostItsKey(
  { store, keyRing, pool, url, log }: Ending,
  { onStep, signal }: RestoreOptions,
): Promise<number> {
  onStep?.('ending what was deleted since');
  const lostKeys = createLostKeys({ store, keyRing, clock: systemClock, task: 'restore' });
  let ended = 0;
  const count = (isEnded: boolean) => void (ended += isEnded ? 1 : 0);
  const { rows } = await pool.query<{ tenant_id: string }>('select tenant_id from key_ring.destroyed_tenant');
  const gone = new Set(rows.map((row) => row.tenant_id));
  for (const tenantId of gone) count(await lostKeys.recordTenant(tenantId));
  for await (const batch of missingKeys(log, url)) {
    const left = batch.filter(({ tenantId }) => !gone.has(tenantId));
    for (let at = 0; at < left.length; at += atOnce) {
      signal.throwIfAborted();
      const recorded = left.slice(at, at + atOnce).map((key) => lostKeys.record(key));
      for (const isEnded of await Promise.all(recorded)) count(isEnded);
    }
  }
  return ended;
}

/** The read models are complete before the first request after the start. */
async function rebuildReadModels(
  store: EventStore,
  connectionString: string,
  { signal, onProgress }: RestoreOptions,
): Promise<void> {
  const head = await store.head();
  const projectors = startProjectors({ store, connectionString });
  try {
    for (;;) {
      signal.throwIfAborted();
      const statuses = await projectors.status();
      const failed = statuses.find(({ status }) => status === 'failed');
      if (failed)
        throw new BackupError(
          `the read model ${failed.name} cannot be made from the log: ${failed.errorCode} at event ${failed.errorEventId}`,
        );
      const positions = statuses.map(({ position }) => Number(position));
      const least = statuses.length < projections.length ? 0 : Math.min(...positions);
      onProgress?.('rebuild read models', least, Number(head));
      if (least >= Number(head)) return;
      await sleep(200);
    }
  } finally {
    await projectors.close();
  }
}
