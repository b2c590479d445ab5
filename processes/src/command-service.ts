import { createLogger, runProcess } from '@token-vault/service-kit';
import { openKeyRing, openLog, openReadModels, type Surroundings } from '../data.ts';
import { commandHandlers } from '../handlers.ts';
import { openHousekeeping } from '../housekeeping.ts';
import { createServiceApp, openServiceParts, readinessOf } from '../http.ts';
import { openReactorParts } from '../reactors/parts.ts';
import { readEgressAllow, readHttpSettings, readProcessSettings, readRootKeySources } from '../settings.ts';
import { explainedCodes, openPort, startService } from '../start.ts';

const service = 'command-service';
const graceMs = 15_000;

function readSettings(environment: NodeJS.ProcessEnv) {
  return {
    ...readProcessSettings(environment),
    http: readHttpSettings(environment),
    rootKeys: readRootKeySources(environment),
    egressAllow: readEgressAllow(environment),
  };
}

/** Whatever changes something, and what goes on beside requests. */
async function open(surroundings: Surroundings, settings: ReturnType<typeof readSettings>) {
  const { logger, closers } = surroundings;
  const { http, egressAllow, host } = settings;
  const keyRing = await openKeyRing(surroundings, settings.rootKeys);
  const store = openLog(surroundings);
  const data = { store, keyRing, ...(await openReadModels(surroundings)) };
  openHousekeeping(surroundings, data);
  const reactors = openReactorParts(store, logger, closers);
  const parts = await openServiceParts(surroundings, data, http);
  const handlers = commandHandlers(parts, reactors, { egressAllow, logger });
  const app = createServiceApp(surroundings, parts, handlers, { showsMetrics: false });
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
