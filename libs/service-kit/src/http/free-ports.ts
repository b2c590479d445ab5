import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';

/**
 * Ports that nobody listens at, one for each host, no two the same: all are held until the last is found, since the kernel
 * may give one that was let go to the next who asks. @throws what `listen` fails with
 */
export async function freePorts(hosts: readonly string[]): Promise<number[]> {
  const servers = hosts.map((host) => createServer().listen(0, host));
  try {
    await Promise.all(servers.map((server) => once(server, 'listening')));
    return servers.map((server) => (server.address() as AddressInfo).port);
  } finally {
    await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  }
}
