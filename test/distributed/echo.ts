import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Echo {
  readonly url: string;
  close(): Promise<void>;
}

/** A server that answers each request with its body. */
export async function startEcho(): Promise<Echo> {
  const server = createServer((request, response) => {
    response.setHeader('Content-Type', 'application/json');
    request.on('error', () => undefined).pipe(response.on('error', () => undefined));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
