import { createLogger, runProcess } from '@token-vault/service-kit';
import { openKeyRing, openLog, openReadModels, type Surroundings } from '../data.ts';
import { queryHandlers } from '../handlers.ts';
import { createServiceApp, openServiceParts, readinessOf } from '../http.ts';
import { readHttpSettings, readProcessSettings, readRootKeySources } from '../settings.ts';
import { explainedCodes, openPort, startService } from '../start.ts';

const service = 'query-service';
const graceMs = 15_000;

function readSettings(environment: NodeJS.ProcessEnv) {
  return {
    ...readProcessSettings(environment),
    http: readHttpSettings(environment),
    rootKeys: readRootKeySources(environment),
  };
}

/** Whatever reads. */
async function open(surroundings: Surroundings, settings: ReturnType<typeof readSettings>) {
  const { logger, closers } = surroundings;
  const { http, host } = settings;
  const keyRing = await openKeyRing(surroundings, settings.rootKeys);
  const data = { store: openLog(surroundings), keyRing, ...(await openReadModels(surroundings)) };
  const parts = await openServiceParts(surroundings, data, http);
  const app = createServiceApp(surroundings, parts, queryHandlers(parts), { showsMetrics: false });
  const server = closers.add(await openPort(app, host, http.port, 'VAULT_PORT'), (it) => it.stop(graceMs));
  logger.info({ port: server.port }, 'answers requests');
  return readinessOf(parts);
}

await runProcess({
  service,
  readSettings,
  createLogger: ({ logLevel: level }) => createLogger({ service, level }),
  start: (settings, logger, signal) => startService(service, settings, logger, signal, open),
  explained: explainedCodes,
});
