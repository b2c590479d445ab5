import { openKeyRing, openLog, openReadModels, type ProcessContext } from './data.ts';
import { openExpressions } from './expressions.ts';
import { commandHandlers } from './handlers.ts';
import { openHousekeeping } from './housekeeping.ts';
import { createServiceApp, openServiceParts } from './http.ts';
import { openOperator } from './operator.ts';
import { openReactorParts } from './reactors/parts.ts';
import {
  readCheckpointsFile,
  readEgressAllow,
  readLimitSettings,
  readProcessSettings,
  readRootKeySources,
  readSandboxAccounts,
} from './settings.ts';
import { runService } from './start.ts';

const service = 'command-service';

function readSettings(environment: NodeJS.ProcessEnv) {
  return {
    ...readProcessSettings(environment),
    limits: readLimitSettings(environment),
    rootKeys: readRootKeySources(environment),
    checkpointsFile: readCheckpointsFile(environment),
    egressAllow: readEgressAllow(environment),
    sandboxAccounts: readSandboxAccounts(environment),
  };
}

/** The operations that change something, and the housekeeping beside them. */
async function open(context: ProcessContext, settings: ReturnType<typeof readSettings>) {
  const { logger } = context;
  const { limits, egressAllow, checkpointsFile } = settings;
  const keyRing = await openKeyRing(context, settings.rootKeys);
  const data = { keyRing, ...(await openReadModels(context, await openLog(context))) };
  openHousekeeping(context, { ...data, checkpointsFile });
  const reactors = openReactorParts(context, data.store, { accounts: settings.sandboxAccounts });
  const expressions = openExpressions(context);
  const parts = await openServiceParts(context, data, limits);
  const operator = openOperator(context, parts, limits);
  const options = { egressAllow, logger, operator };
  const handlers = commandHandlers({ ...parts, expressions }, reactors, options);
  return createServiceApp(context, { ...parts, expressions }, handlers);
}

await runService({ service, readSettings, open });
