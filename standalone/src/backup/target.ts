import { randomBytes } from 'node:crypto';
import { readdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { VaultClient } from '@token-vault/postgres';
import type pg from 'pg';
import { StandaloneError, type StandaloneConfig } from '../config.ts';
import { makeDataDirectory, type DataDirectory } from '../data-directory.ts';
import { requireReachable } from '../external-database.ts';
import { runningPostgres, startEmbeddedPostgres } from '@token-vault/embedded-postgres';
import { logSchema } from '@token-vault/event-store/postgres';
import { hasMigrations, migrationTables } from '@token-vault/processes/migrations';
import { syncDirectory } from './bundle-writer.ts';
import { BackupError } from './format.ts';

/** An empty database for a vault to be restored into. */
export interface RestoreTarget {
  /** Contains the password: never print it. */
  readonly url: string;
  readonly directory: DataDirectory;
  /** Moves the database to its place in the data directory. */
  readonly publish: () => Promise<void>;
  /** Removes all of it. Does nothing after `publish`. */
  readonly abandon: () => Promise<void>;
}

/** @throws BackupError when a vault exists already; StandaloneError, StartError */
export async function openRestoreTarget(config: StandaloneConfig): Promise<RestoreTarget> {
  const directory = await makeDataDirectory(config.dataDir);
  return config.databaseUrl === undefined
    ? createEmbedded(directory)
    : openExternal(config.databaseUrl, directory);
}

const unfinishedPrefix = 'postgres.restoring-';

/**
 * Without this check, a start would make a new, empty vault beside a half-restored one.
 * @throws StandaloneError when a restore into this data directory was interrupted, or is running
 */
export async function refuseUnfinishedRestore({ root }: DataDirectory): Promise<void> {
  const unfinished = (await readdir(root)).find((name) => name.startsWith(unfinishedPrefix));
  if (unfinished !== undefined)
    throw new StandaloneError(
      `a restore into ${root} is not complete: repeat it (vault backup restore), or remove ${unfinished} to start without it`,
    );
}

/** The root key may be in the directory before the restore. */
const isAllowed = (name: string): boolean => name.startsWith('root.key') || name.startsWith(unfinishedPrefix);

/**
 * Makes a cluster under another name until all of it is restored and checked, so that an interrupted restore is never
 * taken for a vault.
 */
async function createEmbedded(directory: DataDirectory): Promise<RestoreTarget> {
  const { root } = directory;
  const names = await readdir(root);
  const other = names.find((name) => !isAllowed(name));
  if (other !== undefined)
    throw new BackupError(
      `${root} is not empty (${other}): restore into a data directory with nothing but a root key`,
    );
  for (const name of names.filter((each) => each.startsWith(unfinishedPrefix)))
    await removeLeftover(path.join(root, name));
  const unfinished = path.join(root, `${unfinishedPrefix}${randomBytes(4).toString('hex')}`);
  const postgres = await startEmbeddedPostgres({ dataDir: unfinished });
  let isOver = false;
  return {
    url: postgres.url,
    directory,
    async publish() {
      await postgres.stop();
      await rename(unfinished, directory.postgres);
      await syncDirectory(root);
      isOver = true;
    },
    async abandon() {
      if (isOver) return;
      await postgres.stop();
      await rm(unfinished, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

async function removeLeftover(dataDir: string): Promise<void> {
  if ((await runningPostgres(dataDir)).kind === 'supervised')
    throw new BackupError(`another restore runs in ${path.dirname(dataDir)}`);
  await rm(dataDir, { recursive: true, force: true, maxRetries: 5 });
}

/** The operator's own Postgres. The database must hold nothing of a vault. */
async function openExternal(url: string, directory: DataDirectory): Promise<RestoreTarget> {
  await requireReachable(url);
  await withClient(url, async (client) => {
    if (await hasMigrations(client))
      throw new BackupError('the database of DATABASE_URL is not empty: restore into a new one');
  });
  let isOver = false;
  return {
    url,
    directory,
    publish: async () => void (isOver = true),
    abandon: async () => {
      if (!isOver) await withClient(url, dropEverything);
    },
  };
}

async function withClient(url: string, work: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new VaultClient({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}

/** Drops what the vault's migrations and projections made in a database that was empty before. */
async function dropEverything(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `select quote_ident(nspname) as name from pg_namespace
     where nspname in ($1, 'key_ring', 'projections', 'housekeeping', 'invocations', 'idempotency', 'authentication',
                       'limits')
        or nspname like 'rm\\_%'`,
    [logSchema],
  );
  for (const { name } of rows) await client.query(`drop schema ${name} cascade`);
  await client.query(`drop table if exists ${migrationTables.join(', ')}`);
}
