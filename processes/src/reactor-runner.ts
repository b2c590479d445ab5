import { listenForAccessChanges } from '@token-vault/authentication';
import { openKeyRing, openLog, openReadModels, type ProcessContext } from './data.ts';
import { openExpressions } from './expressions.ts';
import { commandHandlers, queryHandlers } from './handlers.ts';
import { createHealthApp, readinessOf } from './http.ts';
import { createFeed } from './reactors/feed.ts';
import { openReactorParts } from './reactors/parts.ts';
import { openRunner } from './reactors/runner.ts';
import {
  readEgressAllow,
  readFeedChoice,
  readProcessSettings,
  readRootKeySources,
  readRunsPerTenant,
  readSandboxAccounts,
} from './settings.ts';
import { runService } from './start.ts';

const service = 'reactor-runner';

function readSettings(environment: NodeJS.ProcessEnv) {
  return {
    ...readProcessSettings(environment),
    rootKeys: readRootKeySources(environment),
    egressAllow: readEgressAllow(environment),
    sandboxAccounts: readSandboxAccounts(environment),
    runsPerTenant: readRunsPerTenant(environment),
    feed: readFeedChoice(environment),
  };
}

/**
 * Runs reactors and delivers their results. Requests of reactor code are answered in this process, by the same
 * handlers as HTTP requests.
 */
async function open(context: ProcessContext, settings: ReturnType<typeof readSettings>) {
  const { logger, closers } = context;
  const { egressAllow, rootKeys, sandboxAccounts, runsPerTenant } = settings;
  const keyRing = await openKeyRing(context, rootKeys);
  const expressions = openExpressions(context);
  const data = { keyRing, expressions, ...(await openReadModels(context, await openLog(context))) };
  const { store, readPool: pool } = data;
  const changes = await listenForAccessChanges({
    connectionString: settings.databaseUrl,
    logger,
    // The application of the code is read at each use, so no cache needs this notice.
    onChange: () => undefined,
    onTenantKeysDestroyed: (tenantId) => keyRing.forgetTenant(tenantId),
  });
  closers.addConnection(changes, (it) => it.close());
  const reactors = openReactorParts(context, store, { accounts: sandboxAccounts, runsPerTenant });
  const handlers = { ...commandHandlers(data, reactors, { egressAllow, logger }), ...queryHandlers(data) };
  const feed = await createFeed(settings.feed, { store, pool, logger });
  openRunner(context, { ...data, reactors, handlers, feed }, { egressAllow, runsPerTenant });
  return createHealthApp(context, readinessOf(data));
}

await runService({ service, readSettings, open });
