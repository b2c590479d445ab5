import {
  createMetrics,
  errorFields,
  finishApp,
  listen,
  mountHealth,
  mountMetrics,
  type HealthCheck,
  type Logger,
  type Metrics,
} from '@token-vault/service-kit';
import express from 'express';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { Closers } from './closers.ts';
import type { Surroundings } from './data.ts';
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
]);

const retryMs = 500;
const graceMs = 10_000;

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

/** Health and metrics on a port of their own, for whoever watches the process. */
async function openAdmin(
  { host, adminPort }: ProcessSettings,
  metrics: Metrics,
  logger: Logger,
  checks: () => Readonly<Record<string, HealthCheck>>,
) {
  const app = express();
  app.disable('x-powered-by').disable('etag');
  mountHealth(app, checks, logger);
  mountMetrics(app, metrics);
  finishApp(app, logger);
  const server = await openPort(app, host, adminPort, 'VAULT_ADMIN_PORT');
  logger.info({ port: server.port }, 'answers for health and metrics');
  return server;
}

const listenErrors: Readonly<Record<string, string>> = {
  EADDRINUSE: 'is taken by another process',
  EACCES: 'may not be used by this account',
  EADDRNOTAVAIL: 'is not on an address of this machine: check VAULT_HOST',
  ENOTFOUND: 'is not on a known host: check VAULT_HOST',
};

/** @throws ConfigurationError naming the variable */
export async function openPort(
  listener: Parameters<typeof listen>[0],
  host: string,
  port: number,
  variable: string,
): Promise<Awaited<ReturnType<typeof listen>>> {
  try {
    return await listen(listener, { host, port });
  } catch (cause) {
    const reason = listenErrors[(cause as NodeJS.ErrnoException).code ?? ''] ?? 'cannot be opened';
    throw new ConfigurationError(`${variable}: port ${port} on ${host} ${reason}`, { cause });
  }
}

/** Opens what it needs with the surroundings' closers, and gives what readiness depends on. */
export type OpenService<Settings> = (
  surroundings: Surroundings,
  settings: Settings,
) => Promise<Readonly<Record<string, HealthCheck>>>;

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
  let checks: Readonly<Record<string, HealthCheck>> = {
    start: () => Promise.reject(new Error('it is starting')),
  };
  const admin = await openAdmin(settings, metrics, logger, () => checks);
  closers.add(admin, (it) => it.stop(graceMs));
  try {
    await waitForSchema(settings, logger, signal);
    checks = await open({ settings, logger, metrics, closers }, settings);
  } catch (error) {
    await closers.close().catch((failure: unknown) => logger.warn(errorFields(failure), 'closing failed'));
    throw error;
  }
  return {
    close() {
      // Told before anything closes, so that nothing new is sent here.
      checks = { stop: () => Promise.reject(new Error('it is stopping')) };
      return closers.close();
    },
  };
}
