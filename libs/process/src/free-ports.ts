import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

/**
 * Below the ports from which Linux, macOS and Windows take those of outgoing connections (from 32768, 49152 and 49152). A free port among
 * those may be that of a connection before the caller listens on it. Browsers refuse 10080, so the range begins above it.
 */
const range = { first: 12_000, count: 20_768 };
const maxTries = 1_000;

/**
 * Free ports, one for each host, all different. They are neighbours, from a random one on, so that two callers at the same time seldom get
 * the same. All are held until the last is found. @throws the error of `listen`
 */
export async function freePorts(hosts: readonly string[]): Promise<number[]> {
  const servers: Server[] = [];
  const ports: number[] = [];
  const start = Math.floor(Math.random() * range.count);
  try {
    for (let tried = 0; ports.length < hosts.length; tried += 1) {
      const port = range.first + ((start + tried) % range.count);
      const server = createServer().listen(port, hosts[ports.length]);
      try {
        await once(server, 'listening');
        servers.push(server);
        ports.push(port);
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (code !== 'EADDRINUSE' || tried >= maxTries) throw error;
      }
    }
    return ports;
  } finally {
    await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  }
}
