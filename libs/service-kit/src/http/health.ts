import type { Express, Response } from 'express';
import { errorFields, type Logger } from '../logger.ts';
import { sendJson } from './answer.ts';

/** One part a service depends on. Throws when it is not usable; may give details to show. */
export type HealthCheck = () => Promise<unknown>;

interface Part {
  readonly status: 'ok' | 'failed';
  readonly details?: unknown;
}

async function check(name: string, run: HealthCheck, logger: Logger): Promise<[string, Part]> {
  try {
    const details = await run();
    return [name, details === undefined ? { status: 'ok' } : { status: 'ok', details }];
  } catch (error) {
    logger.warn({ reason: name, ...errorFields(error) }, 'not ready');
    return [name, { status: 'failed' }];
  }
}

async function ready(
  response: Response,
  checks: Readonly<Record<string, HealthCheck>>,
  logger: Logger,
): Promise<void> {
  const parts = await Promise.all(Object.entries(checks).map(([name, run]) => check(name, run, logger)));
  const isReady = parts.every(([, part]) => part.status === 'ok');
  const status = isReady ? 'ready' : 'not ready';
  sendJson(response, isReady ? 200 : 503, { status, checks: Object.fromEntries(parts) });
}

/** `GET /health/live`: the process answers. `GET /health/ready`: what it depends on answers too. No key needed, no data shown. */
export function mountHealth(
  app: Express,
  checks: Readonly<Record<string, HealthCheck>> | (() => Readonly<Record<string, HealthCheck>>),
  logger: Logger,
): void {
  app.get('/health/live', (_request, response) => sendJson(response, 200, { status: 'live' }));
  app.get('/health/ready', (_request, response) =>
    ready(response, typeof checks === 'function' ? checks() : checks, logger),
  );
}
