import { leadWheneverPossible } from '@token-vault/command-service';
import type { InvocationRelay } from '@token-vault/invocation-feed';
import { startProjectors } from '@token-vault/projectors';
import { tellLeading } from '@token-vault/process';
import { openLog, openPool, type ProcessContext } from './data.ts';
import { createHealthApp } from './http.ts';
import { createRelay } from './reactors/feed.ts';
import { readFeedChoice, readProcessSettings } from './settings.ts';
import { runService } from './start.ts';
import { measureProjections } from './projection-lag.ts';
import { traceProjections } from './trace-projections.ts';

const service = 'projectors';

function readSettings(environment: NodeJS.ProcessEnv) {
  return { ...readProcessSettings(environment), feed: readFeedChoice(environment) };
}

/** One process relays at a time: two would relay every invocation twice, which is harmless but useless. */
function openRelay({ settings, logger, closers }: ProcessContext, relay: InvocationRelay): void {
  const abort = new AbortController();
  const { databaseUrl: connectionString } = settings;
  const options = { connectionString, name: 'relay', logger, signal: abort.signal, onLeading: tellLeading };
  const leading = leadWheneverPossible(options, (signal) => relay.run(signal));
  closers.addConnection(abort, async (it) => {
    it.abort();
    await leading;
  });
}

/** The read models, and with Kafka the relay of invocations. This process has no keys and never opens sealed data. */
async function open(context: ProcessContext, settings: ReturnType<typeof readSettings>) {
  const { logger, closers, metrics, spans } = context;
  const { databaseUrl: connectionString, feed } = settings;
  const store = await openLog(context);
  const pool = openPool(context, 'projectors', 2);
  const projectors = closers.addConnection(
    startProjectors({
      ...{ store, connectionString, logger, onLeading: tellLeading },
      ...traceProjections(spans),
    }),
    (it) => it.close(),
  );
  measureProjections(metrics, { store, status: () => projectors.status() });
  if (feed.kind === 'kafka') openRelay(context, createRelay(feed, { store, pool, logger }));
  return createHealthApp(context, {
    event_store: async () => void (await store.head()),
    database: async () => void (await pool.query('select 1')),
  });
}

await runService({ service, readSettings, open });
