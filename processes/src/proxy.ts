import { openKeyRing, openLog, openReadModels, type ProcessContext } from './data.ts';
import { openExpressions } from './expressions.ts';
import { commandHandlers, queryHandlers } from './handlers.ts';
import { createServiceApp, openServiceParts } from './http.ts';
import { openProxy } from './proxies.ts';
import { openReactorParts } from './reactors/parts.ts';
import {
  readEgressAllow,
  readLimitSettings,
  readProcessSettings,
  readRootKeySources,
  readRunsPerTenant,
  readSandboxAccounts,
} from './settings.ts';
import { runService } from './start.ts';

const service = 'proxy';

function readSettings(environment: NodeJS.ProcessEnv) {
  return {
    ...readProcessSettings(environment),
    limits: readLimitSettings(environment),
    rootKeys: readRootKeySources(environment),
    egressAllow: readEgressAllow(environment),
    sandboxAccounts: readSandboxAccounts(environment),
    runsPerTenant: readRunsPerTenant(environment),
  };
}

/** Sends requests on to other servers. */
async function open(context: ProcessContext, settings: ReturnType<typeof readSettings>) {
  const keyRing = await openKeyRing(context, settings.rootKeys);
  const expressions = openExpressions(context);
  const data = { keyRing, ...(await openReadModels(context, await openLog(context))) };
  const parts = { ...(await openServiceParts(context, data, settings.limits)), expressions };
  const { egressAllow, sandboxAccounts: accounts, runsPerTenant } = settings;
  const reactors = openReactorParts(context, data.store, { accounts, runsPerTenant });
  const { logger } = context;
  const handlers = { ...commandHandlers(parts, reactors, { egressAllow, logger }), ...queryHandlers(parts) };
  const proxy = openProxy(context, { ...parts, reactors, handlers }, settings);
  return createServiceApp(context, { ...parts, proxyKeys: proxy.proxyKeys }, proxy.handlers);
}

await runService({ service, readSettings, open });
