import { createLogger, runProcess } from '@token-vault/service-kit';
import { openKeyRing, openLog, openReadModels, type Surroundings } from './data.ts';
import { openExpressions } from './expressions.ts';
import { commandHandlers } from './handlers.ts';
import { openHousekeeping } from './housekeeping.ts';
import { createServiceApp, openServiceParts } from './http.ts';
import { openReactorParts } from './reactors/parts.ts';
import {
  readEgressAllow,
  readLimitSettings,
  readProcessSettings,
  readRootKeySources,
  readSandboxAccounts,
} from './settings.ts';
import { explainedCodes, startService } from './start.ts';

const service = 'command-service';

function readSettings(environment: NodeJS.ProcessEnv) {
  return {
    ...readProcessSettings(environment),
    limits: readLimitSettings(environment),
    rootKeys: readRootKeySources(environment),
    egressAllow: readEgressAllow(environment),
    sandboxAccounts: readSandboxAccounts(environment),
  };
}

/** Whatever changes something, and what goes on beside requests. */
async function open(surroundings: Surroundings, settings: ReturnType<typeof readSettings>) {
  const { logger } = surroundings;
  const { limits, egressAllow } = settings;
  const keyRing = await openKeyRing(surroundings, settings.rootKeys);
  const data = { keyRing, ...(await openReadModels(surroundings, await openLog(surroundings))) };
  openHousekeeping(surroundings, data);
  const reactors = openReactorParts(surroundings, data.store, settings.sandboxAccounts);
  const expressions = openExpressions(surroundings);
  const parts = await openServiceParts(surroundings, data, limits);
  const handlers = commandHandlers({ ...parts, expressions }, reactors, { egressAllow, logger });
  return createServiceApp(surroundings, { ...parts, expressions }, handlers);
}

await runProcess({
  service,
  readSettings,
  createLogger: ({ logLevel: level }) => createLogger({ service, level }),
  start: (settings, logger, signal) => startService(service, settings, logger, signal, open),
  explained: explainedCodes,
});
