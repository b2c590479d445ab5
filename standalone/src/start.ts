import { createLogger, errorFields, type Logger } from '@token-vault/observability';
import { listen, type RunningServer } from '@token-vault/http';
import { endsInTime } from '@token-vault/process';
import type { RequestListener } from 'node:http';
import { takeAccount } from './account/service-account.ts';
import { refuseUnfinishedRestore } from './backup/target.ts';
import { StandaloneError, type StandaloneConfig } from './config.ts';
import type { Credentials } from './credentials.ts';
import { makeDataDirectory, type DataDirectory } from './data-directory.ts';
import { requireReachable } from './external-database.ts';
import { startEmbeddedPostgres, type EmbeddedPostgres } from '@token-vault/embedded-postgres';
import { openVault, type Vault } from './vault.ts';

export interface RunningStandalone {
  readonly url: string;
  readonly directory: DataDirectory;
  /** Set only at the first start. */
  readonly credentials: Credentials | undefined;
  /** Finishes the running requests, then stops all parts, Postgres last and cleanly. It may be called repeatedly. */
  stop(): Promise<void>;
  /**
   * Resolves when the database has ended by itself. The process should then end, so that its supervisor restarts it.
   */
  readonly databaseLost: Promise<void>;
}

/** Called before the first request can be answered, also while the start is not complete: from then on a signal must not cut requests. */
export type OnAnswering = (stop: () => Promise<void>) => void;

const graceMs = 10_000;
/** Work that waits for a database which does not answer is cut off after it. Runs of reactors have 18 s. */
const closeMs = 25_000;

/** Answers until the vault is up, so that the port is taken early and health checks get an answer. */
const starting: RequestListener = (_request, response) => {
  response.writeHead(503, { 'content-type': 'application/problem+json', 'retry-after': '1' });
  response.end(
    JSON.stringify({ title: 'Service Unavailable', status: 503, detail: 'The vault is starting.' }),
  );
};

const listenErrors: Readonly<Record<string, string>> = {
  EADDRINUSE: 'is taken by another process; set VAULT_PORT to another one',
  EACCES: 'may not be used by this account; set VAULT_PORT to 1024 or above',
  EADDRNOTAVAIL: 'is not on an address of this machine; check VAULT_HOST',
  ENOTFOUND: 'is not on a known host; check VAULT_HOST',
};

async function openPort(config: StandaloneConfig, listener: RequestListener): Promise<RunningServer> {
  try {
    return await listen(listener, { host: config.host, port: config.port });
  } catch (cause) {
    const reason = listenErrors[(cause as NodeJS.ErrnoException).code ?? ''] ?? 'cannot be opened';
    throw new StandaloneError(`port ${config.port} on ${config.host} ${reason}`, { cause });
  }
}

function displayUrl(host: string, port: number): string {
  const name = host === '127.0.0.1' || host === '0.0.0.0' || host === '::' ? 'localhost' : host;
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}`;
}

async function openDatabase(config: StandaloneConfig, directory: DataDirectory, logger: Logger) {
  if (config.databaseUrl !== undefined) {
    await requireReachable(config.databaseUrl);
    return { url: config.databaseUrl, postgres: undefined, storagePath: config.storagePath };
  }
  const postgres = await startEmbeddedPostgres({ dataDir: directory.postgres, logger });
  return { url: postgres.url, postgres, storagePath: config.storagePath ?? directory.postgres };
}

function whenLost(postgres: EmbeddedPostgres | undefined): Promise<void> {
  return new Promise((resolve) => postgres?.onExit(() => resolve()));
}

/**
 * Starts a whole vault in this process.
 * @throws StandaloneError, StartError, SchemaTooNewError, WrongRootKeyError …: each message is one line for the
 * operator.
 */
export async function startStandalone(
  config: StandaloneConfig,
  onAnswering: OnAnswering = () => undefined,
): Promise<RunningStandalone> {
  const logger = createLogger({ service: 'standalone', level: config.logLevel });
  const directory = await makeDataDirectory(config.dataDir);
  await refuseUnfinishedRestore(directory);
  let current: RequestListener = starting;
  const server = await openPort(config, (request, response) => current(request, response));
  const url = displayUrl(config.host, server.port);
  let postgres: EmbeddedPostgres | undefined;
  let vault: Vault | undefined;
  let stopping: Promise<void> | undefined;

  async function stopAll(): Promise<void> {
    await server.stop(graceMs);
    const closing = vault?.close() ?? Promise.resolve();
    await endsInTime(closing, closeMs).then(
      (isClosed) =>
        isClosed || logger.error({}, 'not stopped in time: what waits for the database is cut off'),
      (error: unknown) => logger.error(errorFields(error), 'closing failed'),
    );
    await postgres?.stop();
  }
  const stop = () => (stopping ??= stopAll());

  try {
    // Called after the port is open, because only root may open some ports.
    await takeAccount(config, directory);
    const database = await openDatabase(config, directory, logger);
    postgres = database.postgres;
    const { storagePath } = database;
    const place = { databaseUrl: database.url, isAlone: postgres !== undefined, storagePath };
    vault = await openVault({ ...config, ...place, directory, baseUrl: url, logger });
    onAnswering(stop);
    current = vault.app;
    return { url, directory, credentials: vault.credentials, stop, databaseLost: whenLost(postgres) };
  } catch (error) {
    await stop();
    throw error;
  }
}
