import { listen, trustOf } from '@token-vault/http';
import type { Logger } from '@token-vault/observability';
import { createProxy } from './proxy.ts';
import type { GatewaySettings } from './settings.ts';
import { createUpstreams } from './upstreams.ts';

export interface Gateway {
  readonly port: number;
  close(): Promise<void>;
}

/** A load balancer in front checks the gateway as often as the gateway checks its replicas: every second. */
const drainMs = 3_000;
const graceMs = 20_000;

/** For installations without nginx: one address for the replicas of the services. Rejects with the system's error. */
export async function startGateway(
  { host, port, commandServices, queryServices, proxies, trustProxy = 0 }: GatewaySettings,
  logger: Logger,
): Promise<Gateway> {
  const upstreams = {
    command: createUpstreams(commandServices),
    query: createUpstreams(queryServices),
    proxy: createUpstreams(proxies),
  };
  const server = await listen(createProxy({ upstreams, logger, trusts: trustOf(trustProxy) }), {
    host,
    port,
  });
  logger.info({ port: server.port }, 'the gateway listens');
  return {
    port: server.port,
    async close() {
      await server.drain(drainMs);
      await server.stop(graceMs);
      for (const each of Object.values(upstreams)) each.close();
    },
  };
}
