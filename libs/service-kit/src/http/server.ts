import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface RunningServer {
  readonly port: number;
  /** Takes no new requests, lets those under way end, cuts what is left after `graceMs`. */
  stop(graceMs: number): Promise<void>;
}

/** Listens; rejects with the system's error (EADDRINUSE, EACCES …) when it cannot. */
export async function listen(
  listener: RequestListener,
  options: { host: string; port: number },
): Promise<RunningServer> {
  const server: Server = createServer(
    { keepAliveTimeout: 65_000, headersTimeout: 20_000, requestTimeout: 60_000 },
    listener,
  );
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options.port, options.host, () => {
      server.off('error', reject);
      resolve();
    });
  });
  return {
    port: (server.address() as AddressInfo).port,
    async stop(graceMs) {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeIdleConnections();
      const timer = setTimeout(() => server.closeAllConnections(), graceMs);
      // A kept-alive connection becomes idle only after its answer: closing idle ones once is not enough.
      const sweep = setInterval(() => server.closeIdleConnections(), 50);
      await closed;
      clearTimeout(timer);
      clearInterval(sweep);
    },
  };
}
