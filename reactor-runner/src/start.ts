import { streams } from '@token-vault/contracts';
import type { InvocationFeed } from '@token-vault/invocation-feed';
import { errorFields } from '@token-vault/observability';
import type { Pool } from 'pg';
import { drainMs } from './consume/feed-options.ts';
import { startBacklog } from './runs/backlog.ts';
import { historyFrom, readHistory } from './runs/invocation.ts';
import { failLostRun } from './runs/lost.ts';
import { Runs, type RunDependencies } from './runs/run.ts';
import { deliverAlert } from './webhooks/alerts.ts';
import { Deliveries, type DeliveryDependencies } from './webhooks/deliver.ts';
import { startDueWork } from './webhooks/due.ts';

export interface ReactorRunnerOptions extends RunDependencies, DeliveryDependencies {
  readonly feed: InvocationFeed;
  /** The pool of the read models. It is not ended here. */
  readonly pool: Pool;
  /** The same database. One session is used for locks, so the connection may not go through a transaction pooler. */
  readonly connectionString: string;
}

export interface ReactorRunner {
  /**
   * Claims no more invocations. The feed delivers them again, here after the next start or to another runner. Claimed
   * runs may end within `drainMs`; then they are killed, and that is recorded. Deliveries continue after the next
   * start.
   */
  close(): Promise<void>;
}

/** Runs invocations and does due work. Any number of replicas may run it. */
export function startReactorRunner(options: ReactorRunnerOptions): ReactorRunner {
  const { feed, pool, connectionString, clock, logger } = options;
  const abort = new AbortController();
  const runs = new Runs(options);
  const backlog = startBacklog({ ...options, runs });
  const deliveries = new Deliveries(options);
  const due = startDueWork({
    pool,
    connectionString,
    clock,
    logger,
    failLost: ({ tenantId, id }) => failLostRun(options, tenantId, id),
    deliver: ({ tenantId, id }, signal) => deliveries.deliver(tenantId, id, signal),
    alert: (due, signal) => deliverAlert(options, due, signal),
  });
  const consuming = feed
    .start(async ({ tenantId, invocationId, event }) => {
      // The claim finds out whether other events followed.
      const history = event
        ? historyFrom(event)
        : await readHistory(options.store, streams.invocation(tenantId, invocationId));
      await (history.invocation?.invoked.mode === 'async' ? backlog.take(history) : runs.handle(history));
    }, abort.signal)
    .catch((error: unknown) => logger.error(errorFields(error), 'reactors are no longer run'));

  return {
    async close() {
      abort.abort();
      runs.takeNoMore();
      const killing = setTimeout(() => runs.stop(), drainMs);
      await Promise.all([consuming, backlog.close(), due.close()]);
      clearTimeout(killing);
    },
  };
}
