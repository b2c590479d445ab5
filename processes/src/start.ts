import { UnavailableError } from '@token-vault/contracts';
import {
  createMetrics,
  errorFields,
  listen,
  noSpans,
  openSpans,
  refuse,
  type HealthCheck,
  type Logger,
  type RunningServer,
} from '@token-vault/service-kit';
import type { RequestListener } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { Closers } from './closers.ts';
import type { ProcessContext } from './data.ts';
import { createHealthApp } from './http.ts';
import { isMigrated } from './migrations/index.ts';
import { schema } from './schema.ts';
import { ConfigurationError, type ProcessSettings } from './settings.ts';

/** Codes of errors whose message is one line that tells the operator what to do. */
export const explainedCodes: ReadonlySet<string> = new Set([
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
const graceMs = 15_000;

/**
 * Waits until the database answers and is at this release's schema, which `vault migrate` brings it to. No service migrates:
 * of ten that start together, nine would be told of a lock, and none should need the rights.
 */
export async function waitForSchema(
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

/** What is in the way; undefined when nothing is. */
async function obstacleOf(databaseUrl: string): Promise<string | undefined> {
  const client = new pg.Client({ connectionString: databaseUrl, connectionTimeoutMillis: 5_000 });
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
export async function openPort(
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

/** Until it has begun, a service answers that it is live, not ready, and to everything else that it has not begun. */
function starting(context: ProcessContext): RequestListener {
  const begun: HealthCheck = () => Promise.reject(new Error('it is starting'));
  const health = createHealthApp(context, { begun });
  return (request, response) => {
    if (/^\/(health\/|metrics$)/.test(request.url ?? '')) return void health(request, response);
    refuse(request, response, new UnavailableError('The service is starting.'));
  };
}

/** Opens what it needs with the context' closers, and gives what answers requests. */
export type OpenService<Settings> = (context: ProcessContext, settings: Settings) => Promise<RequestListener>;

/** Starts a process: live at once, ready when `open` is done and what it depends on answers. */
export async function startService<Settings extends ProcessSettings>(
  service: string,
  settings: Settings,
  logger: Logger,
  signal: AbortSignal,
  open: OpenService<Settings>,
): Promise<{ close(): Promise<void> }> {
  const closers = new Closers();
  const metrics = createMetrics(service);
  const { traces } = settings;
  const spans = traces ? closers.add(await openSpans(service, traces), (it) => it.close()) : noSpans;
  const context = { settings, logger, metrics, spans, closers };
  let listener = starting(context);
  const { host, port } = settings;
  const server = await openPort((request, response) => listener(request, response), host, port, 'VAULT_PORT');
  logger.info({ port: server.port }, 'listens');
  try {
    await waitForSchema(settings, logger, signal);
    listener = await open(context, settings);
  } catch (error) {
    await server.stop(0);
    await closers.close().catch((failure: unknown) => logger.warn(errorFields(failure), 'closing failed'));
    throw error;
  }
  return {
    async close() {
      await server.stop(graceMs);
      await closers.close();
    },
  };
}
