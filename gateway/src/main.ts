import { createLogger, runProcess } from '@token-vault/service-kit';
import { startGateway } from './gateway.ts';
import { readGatewaySettings } from './settings.ts';

const service = 'gateway';

await runProcess({
  service,
  readSettings: readGatewaySettings,
  createLogger: ({ logLevel: level }) => createLogger({ service, level }),
  start: startGateway,
  explained: new Set(['configuration_invalid']),
});
