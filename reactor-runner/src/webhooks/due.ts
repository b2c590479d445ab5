import { aliased } from '@token-vault/contracts';
import type { Clock } from '@token-vault/operations';
import { errorFields, type Logger } from '@token-vault/observability';
import { setTimeout as delay } from 'node:timers/promises';
import type { Pool } from 'pg';
import { rowsOf } from '../read-model.ts';
import { createLocks } from './locks.ts';

interface Due {
  readonly tenantId: string;
  readonly id: string;
}

export interface DueWorkOptions {
  /** The pool of the read models. */
  readonly pool: Pool;
  readonly connectionString: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly failLost: (due: Due) => Promise<void>;
  readonly deliver: (due: Due) => Promise<void>;
  readonly alert: (due: Due) => Promise<void>;
  readonly pollMs?: number;
}

const r = aliased('invocations', 'running', 'r');
const d = aliased('invocations', 'delivery', 'd');
const a = aliased('alerts', 'delivery', 'a');

const queries = {
  running: `select ${r.tenant_id}, ${r.id} from ${r.source} where ${r.deadline} <= $1 order by ${r.deadline} limit 200`,
  delivery: `select ${d.tenant_id}, ${d.id} from ${d.source} where ${d.next_at} <= $1 order by ${d.next_at} limit 200`,
  alert: `select ${a.tenant_id}, ${a.id} from ${a.source} where ${a.next_at} <= $1 order by ${a.next_at} limit 200`,
} as const;

const deliveriesAtOnce = 64;

/**
 * Does work that is due by time: fails runs whose runner is gone, delivers results and security webhooks. Any number of replicas may
 * run it. Due work is in the read model, so restarts lose nothing; the stream decides whether it is really due.
 */
export function startDueWork(options: DueWorkOptions): { close(): Promise<void> } {
  const { pool, connectionString, clock, logger, pollMs = 1_000 } = options;
  const abort = new AbortController();
  const locks = createLocks(connectionString, logger);
  const inHand = new Map<string, Promise<void>>();

  async function dueNow(table: keyof typeof queries): Promise<readonly Due[]> {
    const rows = await rowsOf<{ tenant_id: string; id: string }>(pool, queries[table], [clock.now()]);
    return rows.map(({ tenant_id: tenantId, id }) => ({ tenantId, id }));
  }

  function start(due: Due, work: (due: Due) => Promise<void>): void {
    if (inHand.has(due.id) || inHand.size >= deliveriesAtOnce) return;
    const running = locks
      .hold(due.id, () => work(due))
      .catch((error: unknown) =>
        logger.warn(
          { tenant_id: due.tenantId, ...errorFields(error) },
          'a due step of an invocation or a security webhook failed',
        ),
      )
      .finally(() => inHand.delete(due.id));
    inHand.set(due.id, running);
  }

  async function pollOnce(): Promise<void> {
    for (const due of await dueNow('alert')) start(due, options.alert);
    for (const due of await dueNow('running')) start(due, options.failLost);
    for (const due of await dueNow('delivery')) start(due, options.deliver);
  }

  async function poll(): Promise<void> {
    while (!abort.signal.aborted) {
      await pollOnce().catch((error: unknown) =>
        logger.warn(errorFields(error), 'due steps of invocations could not be read'),
      );
      await delay(pollMs, undefined, { signal: abort.signal }).catch(() => undefined);
    }
  }

  const polling = poll();
  return {
    async close() {
      abort.abort();
      await polling;
      await Promise.all(inHand.values());
      await locks.close();
    },
  };
}
