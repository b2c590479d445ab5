import { randomUUID } from 'node:crypto';
import {
  createServer,
  STATUS_CODES,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { AnswersUnderWay } from './answers-under-way.ts';
import { traceIdOf } from './trace-id.ts';

export interface RunningServer {
  readonly port: number;
  /**
   * Prepares a stop: the process still answers, but `/health/ready` reports that it is not ready, and each connection ends with its next
   * answer. So routers choose another process, and no request arrives on a connection that is being closed. Resolves when no connection is
   * left, or after `drainMs`.
   */
  drain(drainMs: number): Promise<void>;
  /** Accepts no new requests, waits for those under way, and cuts off the rest after `graceMs`. */
  stop(graceMs: number): Promise<void>;
}

const statusOfParseError: Readonly<Record<string, number>> = {
  HPE_HEADER_OVERFLOW: 431,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
};

/** Problem details for requests that reach no app. Their path is not known, or not trustworthy. */
function plainProblem(status: number, detail: string, traceId: string): string {
  const title = STATUS_CODES[status] ?? 'Bad Request';
  return JSON.stringify({ type: 'about:blank', title, status, detail, instance: '/', trace_id: traceId });
}

/** Malformed HTTP never becomes a request; it still gets a problem as its answer. */
function refuseMalformed(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const status = statusOfParseError[error.code ?? ''] ?? 400;
  const traceId = randomUUID();
  const body = plainProblem(status, 'The request is not valid HTTP.', traceId);
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/problem+json\r\nContent-Length: ${body.length}\r\n` +
      `SVC-TRACE-ID: ${traceId}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n${body}`,
  );
}

/** Answers requests that Node would refuse without a body and a trace id. */
function refusePlainly(
  request: IncomingMessage,
  response: ServerResponse,
  status: number,
  detail: string,
): void {
  const traceId = traceIdOf(request, response);
  const body = plainProblem(status, detail, traceId);
  response.writeHead(status, {
    'Content-Type': 'application/problem+json',
    'Content-Length': Buffer.byteLength(body),
    'SVC-TRACE-ID': traceId,
    'Cache-Control': 'no-store',
    Connection: 'close',
  });
  response.end(body);
}

const sweepMs = 50;

const connectionsOf = (server: Server): Promise<number> =>
  new Promise((resolve) => server.getConnections((_error, count) => resolve(count)));

/** Resolves when the server listens; rejects with the system's error. */
const opened = (server: Server, { host, port }: Address): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });

async function stop(server: Server, graceMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  const timer = setTimeout(() => server.closeAllConnections(), graceMs);
  // A kept-alive connection becomes idle only after its answer, so closing the idle ones once is not enough.
  const sweep = setInterval(() => server.closeIdleConnections(), sweepMs);
  await closed;
  clearTimeout(timer);
  clearInterval(sweep);
}

interface Address {
  readonly host: string;
  readonly port: number;
}

/** Listens; rejects with the system's error (EADDRINUSE, EACCES …). */
export async function listen(listener: RequestListener, address: Address): Promise<RunningServer> {
  const underWay = new AnswersUnderWay();
  let isDraining = false;
  const server = createServer({
    keepAliveTimeout: 65_000,
    headersTimeout: 20_000,
    requestTimeout: 60_000,
    // Checked below, so that the refusal is a problem.
    requireHostHeader: false,
  });
  server.on('connection', (socket) => underWay.read(socket));
  server.on('request', (request, response) => {
    underWay.add(request, response, () => {
      if (isDraining) response.shouldKeepAlive = false;
      if (isDraining && request.url === '/health/ready')
        refusePlainly(request, response, 503, 'The service is stopping.');
      else if (request.headers.host === undefined && request.httpVersion === '1.1')
        refusePlainly(request, response, 400, 'The Host header is missing.');
      else listener(request, response);
    });
  });
  server.on('checkExpectation', (request, response) =>
    underWay.add(request, response, () =>
      refusePlainly(request, response, 417, 'The only supported expectation is 100-continue.'),
    ),
  );
  server.on('clientError', (error: NodeJS.ErrnoException, socket): void => {
    if (error.code === 'ECONNRESET') return void socket.destroy();
    // The parser would fail again with all that follows, and each failure would wait for the answers under way.
    socket.removeAllListeners('data');
    void underWay.ended(socket).then(() => refuseMalformed(error, socket));
  });
  await opened(server, address);
  return {
    port: (server.address() as AddressInfo).port,
    async drain(drainMs) {
      isDraining = true;
      const until = performance.now() + drainMs;
      while ((await connectionsOf(server)) > 0 && performance.now() < until) await delay(sweepMs);
    },
    stop: (graceMs) => stop(server, graceMs),
  };
}
