import { randomUUID } from 'node:crypto';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';

export interface RunningServer {
  readonly port: number;
  /** Takes no new requests, lets those under way end, cuts what is left after `graceMs`. */
  stop(graceMs: number): Promise<void>;
}

const malformed: Readonly<Record<string, readonly [status: number, title: string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'Request Header Fields Too Large'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'Request Timeout'],
};

/** What is not even HTTP never becomes a request; it gets a problem all the same. */
function refuseMalformed(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const [status, title] = malformed[error.code ?? ''] ?? [400, 'Bad Request'];
  const traceId = randomUUID();
  const detail = 'The request is not valid HTTP.';
  const problem = { type: 'about:blank', title, status, detail, instance: '/', trace_id: traceId };
  const body = JSON.stringify(problem);
  socket.end(
    `HTTP/1.1 ${status} ${title}\r\nContent-Type: application/problem+json\r\nContent-Length: ${body.length}\r\n` +
      `SVC-TRACE-ID: ${traceId}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n${body}`,
  );
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
  server.on('clientError', refuseMalformed);
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
