import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { lock, lockKeys, tryLockShared, VaultClient } from '@token-vault/postgres';
import type pg from 'pg';
import { StandaloneError, type StandaloneConfig } from '../config.ts';
import { makeDataDirectory, type DataDirectory } from '../data-directory.ts';
import { requireReachable } from '../external-database.ts';
import { schema } from '@token-vault/processes';
import { migrate } from '@token-vault/processes/migrations';
import {
  DataDirectoryInUseError,
  defaultDataDirectory,
  runningPostgres,
  startEmbeddedPostgres,
} from '@token-vault/embedded-postgres';

/** The database of a vault that runs or is stopped. */
export interface CommandDatabase {
  /** Contains the password: never print it. */
  readonly url: string;
  readonly directory: DataDirectory;
  /** `ours`: the command started it and is its only user. `unknown`: the operator's own, DATABASE_URL. */
  readonly server: 'running vault' | 'ours' | 'unknown';
  close(): Promise<void>;
}

const longestStartMs = 60_000;

/**
 * Connects to the Postgres of the running vault, or starts Postgres for the time of the command. Brings its tables to
 * this release, as the start of a vault does.
 * @throws StandaloneError when no vault ever started there, and the errors of `startEmbeddedPostgres` and `migrate`.
 */
export async function openCommandDatabase(config: StandaloneConfig): Promise<CommandDatabase> {
  const database = await (config.databaseUrl === undefined ? openEmbedded(config) : openExternal(config));
  try {
    await migrate(database.url, schema);
    return database;
  } catch (error) {
    await database.close();
    throw error;
  }
}

async function openExternal(config: StandaloneConfig): Promise<CommandDatabase> {
  const url = config.databaseUrl ?? '';
  await requireReachable(url);
  const directory = await makeDataDirectory(config.dataDir);
  return { url, directory, server: 'unknown', close: async () => {} };
}

async function openEmbedded(config: StandaloneConfig): Promise<CommandDatabase> {
  const root = config.dataDir ?? (await defaultDataDirectory(path.resolve('.vault')));
  const dataDir = path.join(root, 'postgres');
  const deadline = performance.now() + longestStartMs;
  for (;;) {
    const running = await runningPostgres(dataDir);
    if (running.kind === 'absent')
      throw new StandaloneError(`there is no vault in ${root}; start it once, or set VAULT_DATA_DIR`);
    const directory = await makeDataDirectory(root);
    if (running.kind === 'supervised') {
      const { url } = running;
      const client = url === undefined ? undefined : await use(url);
      if (url !== undefined && client)
        return { url, directory, server: 'running vault', close: () => disconnect(client) };
    } else {
      const started = await startUnlessTaken(dataDir);
      if (started)
        return { url: started.url, directory, server: 'ours', close: () => stopWhenUnused(started) };
    }
    if (performance.now() >= deadline)
      throw new StandaloneError(
        `the vault in ${root} runs, but its Postgres does not answer; after an upgrade restart the vault first`,
      );
    // The server is starting or stopping.
    await sleep(100);
  }
}

async function startUnlessTaken(dataDir: string) {
  try {
    return await startEmbeddedPostgres({ dataDir });
  } catch (error) {
    if (error instanceof DataDirectoryInUseError) return undefined;
    throw error;
  }
}

async function connect(url: string): Promise<pg.Client> {
  const client = new VaultClient({ connectionString: url, connectionTimeoutMillis: 5_000, keepAlive: true });
  client.on('error', () => {});
  await client.connect();
  return client;
}

const disconnect = (client: pg.Client): Promise<void> => client.end().catch(() => undefined);

/** Undefined when the server does not answer, or when the command that started it is about to stop it. */
async function use(url: string): Promise<pg.Client | undefined> {
  let client: pg.Client | undefined;
  try {
    client = await connect(url);
    if (await tryLockShared(client, lockKeys.commandDatabase)) return client;
  } catch {
    // The server is starting or stopping.
  }
  if (client) await disconnect(client);
  return undefined;
}

/** Another command may use this Postgres now. Then it is not stopped. */
async function stopWhenUnused(server: { readonly url: string; stop(): Promise<void> }): Promise<void> {
  const client = await connect(server.url).catch(() => undefined);
  if (client) await lock(client, lockKeys.commandDatabase).catch(() => undefined);
  await server.stop();
  if (client) await disconnect(client);
}
