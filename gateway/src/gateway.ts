import { listen, type Logger } from '@token-vault/service-kit';
import { createProxy } from './proxy.ts';
import type { GatewaySettings } from './settings.ts';
import { createUpstreams } from './upstreams.ts';

export interface Gateway {
  readonly port: number;
  close(): Promise<void>;
}

const graceMs = 20_000;

/** Where nginx is not installed: one address before the replicas of both services. Rejects with the system's error. */
export async function startGateway(
  { host, port, commandServices, queryServices }: GatewaySettings,
  logger: Logger,
): Promise<Gateway> {
  const upstreams = { command: createUpstreams(commandServices), query: createUpstreams(queryServices) };
  const server = await listen(createProxy({ upstreams, logger }), { host, port });
  logger.info({ port: server.port }, 'the gateway listens');
  return {
    port: server.port,
    async close() {
      await server.stop(graceMs);
      upstreams.command.close();
      upstreams.query.close();
    },
  };
}
