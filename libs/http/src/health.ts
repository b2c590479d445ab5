import type { Express, Response } from 'express';
import { errorFields, type Logger } from '@token-vault/observability';
import { sendJson } from './answer.ts';

/** Checks one part that a service depends on. Throws when the part is not usable; may return details to show. */
export type HealthCheck = () => Promise<unknown>;

interface Part {
  readonly status: 'ok' | 'failed';
  readonly details?: unknown;
}

type Check = (name: string, run: HealthCheck) => Promise<[string, Part]>;

/**
 * Logs a failing part once, and again only after it worked in between: routers and probes ask every second. A part that has never worked is
 * one of a start that is not done yet, so this is no warning. Neither has a stack: the check is the place, and `reason` names it.
 */
function createCheck(logger: Logger): Check {
  const failing = new Set<string>();
  const known = new Set<string>();
  return async (name, run) => {
    try {
      const details = await run();
      if (failing.delete(name)) logger.info({ reason: name }, known.has(name) ? 'ready again' : 'ready');
      known.add(name);
      return [name, details === undefined ? { status: 'ok' } : { status: 'ok', details }];
    } catch (error) {
      if (!failing.has(name)) {
        const fields = { ...errorFields(error), reason: name, stack: undefined };
        if (known.has(name)) logger.warn(fields, 'not ready');
        else logger.info(fields, 'not ready yet');
      }
      failing.add(name);
      return [name, { status: 'failed' }];
    }
  };
}

async function ready(
  response: Response,
  checks: Readonly<Record<string, HealthCheck>>,
  check: Check,
): Promise<void> {
  const parts = await Promise.all(Object.entries(checks).map(([name, run]) => check(name, run)));
  const isReady = parts.every(([, part]) => part.status === 'ok');
  const status = isReady ? 'ready' : 'not ready';
  sendJson(response, isReady ? 200 : 503, { status, checks: Object.fromEntries(parts) });
}

/** `GET /health/live`: the process answers. `GET /health/ready`: the parts that it depends on answer too. No key needed, no data shown. */
export function mountHealth(
  app: Express,
  checks: Readonly<Record<string, HealthCheck>> | (() => Readonly<Record<string, HealthCheck>>),
  logger: Logger,
): void {
  const check = createCheck(logger);
  app.get('/health/live', (_request, response) => sendJson(response, 200, { status: 'live' }));
  app.get('/health/ready', (_request, response) =>
    ready(response, typeof checks === 'function' ? checks() : checks, check),
  );
}
