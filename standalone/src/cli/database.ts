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
      const client = await use(running.url);
      if (client)
        return { url: running.url, directory, server: 'running vault', close: () => disconnect(client) };
    } else {
      const started = await startUnlessTaken(dataDir);
      if (started)
        return { url: started.url, directory, server: 'ours', close: () => stopWhenUnused(started) };
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

/** Held shared by commands that use a Postgres which is not theirs, and by the one that stops it, alone. */
const useLock = "hashtextextended('vault command database', 0)";

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000, keepAlive: true });
  client.on('error', () => {});
  await client.connect();
  return client;
}

const disconnect = (client: pg.Client): Promise<void> => client.end().catch(() => undefined);

/** Undefined when it does not answer, or is about to be stopped by the command that started it. */
async function use(url: string): Promise<pg.Client | undefined> {
  let client: pg.Client | undefined;
  try {
    client = await connect(url);
    const { rows } = await client.query<{ ok: boolean }>(
      `select pg_try_advisory_lock_shared(${useLock}) as ok`,
    );
    if (rows[0]?.ok) return client;
  } catch {
    // It is starting or stopping.
  }
  if (client) await disconnect(client);
  return undefined;
}

/** Another command may have come to use this Postgres meanwhile: it is not taken away from under it. */
async function stopWhenUnused(server: { readonly url: string; stop(): Promise<void> }): Promise<void> {
  const client = await connect(server.url).catch(() => undefined);
  await client?.query(`select pg_advisory_lock(${useLock})`).catch(() => undefined);
  await server.stop();
  if (client) await disconnect(client);
}
