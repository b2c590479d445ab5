import type { Express } from 'express';
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
 * Logs a failing part once, and again only after it worked in between: routers and probes ask every second. A part that has not worked yet
 * belongs to a start in progress, so its failure is logged as information. The entries have no stack: `reason` names the check, which is
 * the place.
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

/** The interval of the checks without requests. Without them, a process that no router and no probe asks would not log a failure. */
const unaskedMs = 2_000;

/** The checks of a process, which it also runs by itself. */
export interface Health {
  /** Resolves when no check runs any more. */
  close(): Promise<void>;
}

/**
 * `GET /health/live`: the process answers. `GET /health/ready`: the parts that it depends on answer too. No key needed, no data shown.
 * Until `close`, the parts are checked and their failures logged also without requests.
 */
export function mountHealth(
  app: Express,
  checks: Readonly<Record<string, HealthCheck>>,
  logger: Logger,
): Health {
  const check = createCheck(logger);
  let wasAsked = false;
  let last: Promise<unknown> = Promise.resolve();
  const checkAll = () => {
    wasAsked = true;
    const all = Promise.all(Object.entries(checks).map(([name, run]) => check(name, run)));
    last = all;
    return all;
  };
  const timer = setInterval(() => {
    if (!wasAsked) void checkAll();
    wasAsked = false;
  }, unaskedMs).unref();
  app.get('/health/live', (_request, response) => sendJson(response, 200, { status: 'live' }));
  app.get('/health/ready', async (_request, response) => {
    const parts = await checkAll();
    const isReady = parts.every(([, part]) => part.status === 'ok');
    const status = isReady ? 'ready' : 'not ready';
    sendJson(response, isReady ? 200 : 503, { status, checks: Object.fromEntries(parts) });
  });
  return {
    async close() {
      clearInterval(timer);
      await last;
    },
  };
}
