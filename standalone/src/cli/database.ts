import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { StandaloneError, type StandaloneConfig } from '../config.ts';
import { openDataDirectory, type DataDirectory } from '../data-directory.ts';
import { requireReachable } from '../external-database.ts';
import { schema } from '@token-vault/processes';
import { migrate } from '@token-vault/processes/migrations';
import {
  DataDirectoryInUseError,
  defaultDataDirectory,
  runningPostgres,
  startEmbeddedPostgres,
} from '../postgres/index.ts';

/** The database of a vault, whether that runs or not. */
export interface CommandDatabase {
  /** Contains the password: never print it. */
  readonly url: string;
  readonly directory: DataDirectory;
  /** `ours`: nobody else uses it, the command has started it. `unknown`: the operator's own, DATABASE_URL. */
  readonly server: 'running vault' | 'ours' | 'unknown';
  close(): Promise<void>;
}

const longestStartMs = 60_000;

/**
 * Connects to the Postgres of the running vault, or starts it for the time of the command. Brings its tables to this release,
 * as the start of a vault does.
 * @throws StandaloneError when no vault has ever started there, and what `startEmbeddedPostgres` and `migrate` throw.
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
  const directory = await openDataDirectory(config.dataDir);
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
    const directory = await openDataDirectory(root);
    if (running.kind === 'supervised') {
      if (await answers(running.url))
        return { url: running.url, directory, server: 'running vault', close: async () => {} };
    } else {
      const started = await startUnlessTaken(dataDir);
      if (started) return { url: started.url, directory, server: 'ours', close: () => started.stop() };
    }
    if (performance.now() >= deadline)
      throw new StandaloneError(`the vault in ${root} runs, but its Postgres does not answer`);
    // It is starting or stopping.
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

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
  client.on('error', () => {});
  try {
    await client.connect();
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
}
