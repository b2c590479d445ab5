import { randomUUID } from 'node:crypto';
import {
  createServer,
  STATUS_CODES,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { traceIdOf } from './trace-id.ts';

export interface RunningServer {
  readonly port: number;
  /** Takes no new requests, lets those under way end, cuts what is left after `graceMs`. */
  stop(graceMs: number): Promise<void>;
}

const statusOfParseError: Readonly<Record<string, number>> = {
  HPE_HEADER_OVERFLOW: 431,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
};

/** Problem details of requests that no app sees. Their path is not known, or not to be trusted. */
function plainProblem(status: number, detail: string, traceId: string): string {
  const title = STATUS_CODES[status] ?? 'Bad Request';
  return JSON.stringify({ type: 'about:blank', title, status, detail, instance: '/', trace_id: traceId });
}

/** What is not HTTP never becomes a request; it gets a problem all the same. */
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

/** Requests that Node would refuse by itself, without a body and a trace id. */
function refusePlainly(
  request: IncomingMessage,
  response: ServerResponse,
  status: number,
  detail: string,
): void {
  const traceId = traceIdOf(request);
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

/**
 * Requests of one connection that may be without an answer; a client that sends more is cut off. Node reads on although the socket is
 * paused, and to give up 150,000 requests of a connection that ends takes it 20 s, in which no other is served.
 */
const mostWaiting = 1_000;

/**
 * The answers under way on each connection. A client may send the next requests, or garbage, before it has the answer to the last one.
 * That answer must leave first: the write that it tells of was done. And the next requests wait until it has: else one
 * connection would have a thousand of them run at once, and everybody else's would wait behind them.
 */
class AnswersUnderWay {
  readonly #bySocket = new WeakMap<Duplex, Set<ServerResponse>>();
  readonly #last = new WeakMap<Duplex, ServerResponse>();

  /** Calls `run` when the earlier requests of the connection have their answers; never when it is gone by then. */
  add({ socket }: IncomingMessage, response: ServerResponse, run: () => void): void {
    let answers = this.#bySocket.get(socket);
    if (!answers) this.#bySocket.set(socket, (answers = new Set()));
    const last = answers.size === 0 ? undefined : this.#last.get(socket);
    this.#last.set(socket, response);
    answers.add(response);
    response.on('close', () => answers.delete(response));
    if (!last) return run();
    if (answers.size > mostWaiting) return void socket.destroy();
    last.once('close', () => {
      if (!socket.destroyed) run();
    });
  }

  /** Resolves when every request that arrived whole on this connection has its answer. */
  async ended(socket: Duplex): Promise<void> {
    // A request whose own body is malformed gets no answer but the refusal.
    const answers = [...(this.#bySocket.get(socket) ?? [])].filter(({ req }) => req.complete);
    await Promise.all(answers.map((each) => new Promise<void>((resolve) => each.once('close', resolve))));
  }
}

/** Listens; rejects with the system's error (EADDRINUSE, EACCES …) when it cannot. */
export async function listen(
  listener: RequestListener,
  options: { readonly host: string; readonly port: number },
): Promise<RunningServer> {
  const underWay = new AnswersUnderWay();
  const server = createServer({
    keepAliveTimeout: 65_000,
    headersTimeout: 20_000,
    requestTimeout: 60_000,
    // Checked below, so that the refusal is a problem.
    requireHostHeader: false,
  });
  server.on('request', (request, response) => {
    underWay.add(request, response, () => {
      if (request.headers.host === undefined && request.httpVersion === '1.1')
        refusePlainly(request, response, 400, 'The Host header is missing.');
      else listener(request, response);
    });
  });
  server.on('checkExpectation', (request, response) =>
    underWay.add(request, response, () =>
      refusePlainly(request, response, 417, 'The only expectation that is met is 100-continue.'),
    ),
  );
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    if (error.code === 'ECONNRESET') socket.destroy();
    else void underWay.ended(socket).then(() => refuseMalformed(error, socket));
  });
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
