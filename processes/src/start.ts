import { UnavailableError } from '@token-vault/contracts';
import {
  createLogger,
  createMetrics,
  errorFields,
  noSpans,
  openSpans,
  silentLogger,
  type Logger,
} from '@token-vault/observability';
import { listen, notBegunHeader, refuse, type HealthCheck, type RunningServer } from '@token-vault/http';
import { runProcess } from '@token-vault/process';
import type { RequestListener } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { VaultClient } from '@token-vault/postgres';
import { Closers } from './closers.ts';
import type { ProcessContext } from './data.ts';
import { reportDatabaseRights } from './database-rights.ts';
import { createHealthApp } from './http.ts';
import { isMigrated } from './migrations/index.ts';
import { watchStorage } from './storage.ts';
import { schema } from './schema.ts';
import { ConfigurationError, type ProcessSettings } from './settings.ts';

/** Codes of errors whose message is one line that tells the operator what to do. */
const explainedCodes: ReadonlySet<string> = new Set([
  'configuration_invalid',
  'wrong_root_key',
  'root_key_unusable',
  'root_key_unavailable',
  'schema_too_new',
  'schema_mismatch',
  'migration_failed',
  'event_store_access',
]);

const retryMs = 500;
/** A router asks each second whether a service is ready. */
const drainMs = 3_000;
const graceMs = 15_000;

/**
 * Waits until the database answers and has this release's schema, which `vault migrate` makes. No service migrates:
 * of ten that start together, nine would wait for a lock, and no service should need the rights.
 */
async function waitForSchema(
  { databaseUrl, startWithinMs }: ProcessSettings,
  logger: Logger,
  signal: AbortSignal,
): Promise<void> {
  const until = performance.now() + startWithinMs;
  for (let attempt = 1; ; attempt += 1) {
    const obstacle = await obstacleOf(databaseUrl);
    if (obstacle === undefined) return;
    signal.throwIfAborted();
    if (performance.now() >= until) throw new ConfigurationError(obstacle);
    if (attempt % 20 === 1) logger.warn({ attempt, reason: obstacle }, 'not started yet');
    await delay(retryMs, undefined, { signal });
  }
}

/** The reason why the process cannot start yet. Undefined when there is none. */
async function obstacleOf(databaseUrl: string): Promise<string | undefined> {
  const client = new VaultClient({ connectionString: databaseUrl, connectionTimeoutMillis: 5_000 });
  client.on('error', () => {});
  try {
    await client.connect();
    const isReady = await isMigrated(client, schema);
    return isReady
      ? undefined
      : 'DATABASE_URL: its tables are not those of this release: run `vault migrate`';
  } catch (error) {
    const code: unknown = (error as { code?: unknown }).code;
    if (typeof code === 'string' && code.startsWith('schema_')) throw error;
    const place = `${client.host}:${client.port}`;
    return `DATABASE_URL: cannot connect to Postgres at ${place} (${typeof code === 'string' ? code : 'no answer'})`;
  } finally {
    await client.end().catch(() => undefined);
  }
}

const listenErrors: Readonly<Record<string, string>> = {
  EADDRINUSE: 'is taken by another process',
  EACCES: 'may not be used by this account',
  EADDRNOTAVAIL: 'is not on an address of this machine: check VAULT_HOST',
  ENOTFOUND: 'is not on a known host: check VAULT_HOST',
};

/** @throws ConfigurationError naming the variable */
async function openPort(
  listener: RequestListener,
  host: string,
  port: number,
  variable: string,
): Promise<RunningServer> {
  try {
    return await listen(listener, { host, port });
  } catch (cause) {
    const reason = listenErrors[(cause as NodeJS.ErrnoException).code ?? ''] ?? 'cannot be opened';
    throw new ConfigurationError(`${variable}: port ${port} on ${host} ${reason}`, { cause });
  }
}

/** Until the service has begun, it answers that it is live and not ready. All other requests get 503. */
function starting(context: ProcessContext): RequestListener {
  const begun: HealthCheck = () => Promise.reject(new Error('it is starting'));
  // A starting process reports only by its answers, so its health app logs nothing.
  const health = createHealthApp({ ...context, logger: silentLogger }, { begun });
  return (request, response) => {
    if (/^\/(health\/|metrics$)/.test(request.url ?? '')) return void health(request, response);
    response.setHeader(notBegunHeader, 'true');
    refuse(request, response, new UnavailableError('The service is starting.'));
  };
}

/** Opens the parts of a service, adds them to the closers of the context, and gives the request listener. */
type OpenService<Settings> = (context: ProcessContext, settings: Settings) => Promise<RequestListener>;

interface ServiceStart<Settings> {
  readonly service: string;
  readonly settings: Settings;
  readonly logger: Logger;
  /** Aborting ends the wait for the schema. */
  readonly signal: AbortSignal;
}

/** Starts a process. It is live at once, and ready when `open` is done and its dependencies answer. */
async function startService<Settings extends ProcessSettings>(
  { service, settings, logger, signal }: ServiceStart<Settings>,
  open: OpenService<Settings>,
): Promise<{ close(): Promise<void> }> {
  const closers = new Closers();
  const metrics = createMetrics(service);
  const { traces } = settings;
  const spans = traces ? closers.add(await openSpans(service, traces), (it) => it.close()) : noSpans;
  const watched = await watchStorage({ path: settings.storagePath, logger, metrics });
  const storage = closers.add(watched, (it) => it.close());
  const context = { settings, logger, metrics, spans, closers, storage };
  let listener = starting(context);
  const { host, port } = settings;
  const server = await openPort((request, response) => listener(request, response), host, port, 'VAULT_PORT');
  logger.info({ port: server.port }, 'listens');
  try {
    await waitForSchema(settings, logger, signal);
    await reportDatabaseRights(context);
    listener = await open(context, settings);
  } catch (error) {
    await server.stop(0);
    await closers.close().catch((failure: unknown) => logger.warn(errorFields(failure), 'closing failed'));
    throw error;
  }
  return {
    async close() {
      await server.drain(drainMs);
      await server.stop(graceMs);
      await closers.close();
    },
  };
}

interface Service<Settings> {
  /** Its name in logs, metrics and spans. */
  readonly service: string;
  readonly readSettings: (environment: NodeJS.ProcessEnv) => Settings;
  readonly open: OpenService<Settings>;
}

/** Runs a service as this process, from its settings to its end. */
export const runService = <Settings extends ProcessSettings>({
  service,
  readSettings,
  open,
}: Service<Settings>): Promise<void> =>
  runProcess({
    service,
    readSettings,
    createLogger: ({ logLevel: level }) => createLogger({ service, level }),
    start: (settings, logger, signal) => startService({ service, settings, logger, signal }, open),
    explained: explainedCodes,
  });
