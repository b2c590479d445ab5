import { streams } from '@token-vault/contracts';
import type { InvocationFeed } from '@token-vault/invocations';
import { errorFields } from '@token-vault/service-kit';
import type { Pool } from 'pg';
import { startBacklog } from './runs/backlog.ts';
import { historyFrom, readHistory } from './runs/invocation.ts';
import { failLostRun } from './runs/lost.ts';
import { Runs, type RunDependencies } from './runs/run.ts';
import { Deliveries, type DeliveryDependencies } from './webhooks/deliver.ts';
import { startDueWork } from './webhooks/due.ts';

export interface ReactorRunnerOptions extends RunDependencies, DeliveryDependencies {
  readonly feed: InvocationFeed;
  /** Of the read models. Never ended here. */
  readonly pool: Pool;
  /** Of the same database; one session is taken, so not through a transaction pooler. */
  readonly connectionString: string;
}

export interface ReactorRunner {
  /** Takes no more, kills what runs, records that, and ends. Deliveries go on after the next start. */
  close(): Promise<void>;
}

/** Runs what is invoked and sees to what is due. Any number of replicas may. */
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
    deliver: ({ tenantId, id }) => deliveries.deliver(tenantId, id),
  });
  const consuming = feed
    .start(async ({ tenantId, invocationId, event }) => {
      // What else has happened to it, the claim finds out.
      const history = event
        ? historyFrom(event)
        : await readHistory(options.store, streams.invocation(tenantId, invocationId));
      await (history.invocation?.invoked.mode === 'async' ? backlog.take(history) : runs.handle(history));
    }, abort.signal)
    .catch((error: unknown) => logger.error(errorFields(error), 'reactors are no longer run'));

  return {
    async close() {
      abort.abort();
      runs.stop();
      await Promise.all([consuming, backlog.close(), due.close()]);
    },
  };
}
