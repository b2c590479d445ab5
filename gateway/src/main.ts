import { createLogger } from '@token-vault/observability';
import { runProcess } from '@token-vault/process';
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
