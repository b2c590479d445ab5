import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';

/**
 * Free ports, one for each host, all different. All are held until the last is found, because the kernel may give a released port to the
 * next caller. @throws the error of `listen`
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
