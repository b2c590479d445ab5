import { createLogger, runProcess } from '@token-vault/service-kit';
import { openKeyRing, openLog, openReadModels, type Surroundings } from './data.ts';
import { openExpressions } from './expressions.ts';
import { queryHandlers } from './handlers.ts';
import { createServiceApp, openServiceParts } from './http.ts';
import { readLimitSettings, readProcessSettings, readRootKeySources } from './settings.ts';
import { explainedCodes, startService } from './start.ts';

const service = 'query-service';

function readSettings(environment: NodeJS.ProcessEnv) {
  return {
    ...readProcessSettings(environment),
    limits: readLimitSettings(environment),
    rootKeys: readRootKeySources(environment),
  };
}

/** Whatever reads. */
async function open(surroundings: Surroundings, settings: ReturnType<typeof readSettings>) {
  const keyRing = await openKeyRing(surroundings, settings.rootKeys);
  const data = { keyRing, ...(await openReadModels(surroundings, await openLog(surroundings))) };
  const expressions = openExpressions(surroundings);
  const parts = await openServiceParts(surroundings, data, settings.limits);
  const all = { ...parts, expressions };
  return createServiceApp(surroundings, all, queryHandlers(all));
}

await runProcess({
  service,
  readSettings,
  createLogger: ({ logLevel: level }) => createLogger({ service, level }),
  start: (settings, logger, signal) => startService(service, settings, logger, signal, open),
  explained: explainedCodes,
});
