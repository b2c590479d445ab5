import { DomainError, UnavailableError } from '@token-vault/contracts';
import { bodyLimitBytes, errorFields, refuse, type Logger } from '@token-vault/service-kit';
import {
  request as requestOf,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http';
import { pipeline } from 'node:stream';
import { serviceOf, type Service } from './routes.ts';
import type { Upstream, Upstreams } from './upstreams.ts';

/** Longer than the longest synchronous invocation. */
const answerTimeoutMs = 240_000;
const safeMethods = new Set(['GET', 'HEAD']);
/** RFC 9110 7.6.1: of one connection only. Length and framing are made anew. */
const hopByHop = new Set([
  'connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection', 'te', 'trailer',
  'transfer-encoding', 'upgrade', 'expect', 'content-length', 'x-forwarded-for', 'x-forwarded-proto', 'forwarded',
]); // prettier-ignore

/** A replica did not answer. */
class ForwardError extends Error {
  /** The request has not left this process: another replica may be asked whatever the method. */
  readonly isUnsent: boolean;
  constructor(isUnsent: boolean, cause: unknown) {
    super('a service did not answer', { cause });
    this.isUnsent = isUnsent;
  }
}

export interface ProxyOptions {
  readonly upstreams: Readonly<Record<Service, Upstreams>>;
  readonly logger: Logger;
}

/** The whole body, so that another replica can be given it. @throws DomainError when it is too large */
async function collect(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > bodyLimitBytes)
      throw new DomainError('payload_too_large', 'The request body is larger than 1 MiB.');
    chunks.push(chunk);
  }
  return chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks);
}

/** The headers as they came, but those of the connection; after whom the client says it speaks for stands who it is. */
function headersFor(request: IncomingMessage, body: Buffer): string[] {
  const { rawHeaders, socket } = request;
  const named = new Set((request.headers.connection ?? '').toLowerCase().split(/\s*,\s*/));
  const kept = rawHeaders.flatMap((name, index) => {
    if (index % 2 === 1) return [];
    const lower = name.toLowerCase();
    return hopByHop.has(lower) || named.has(lower) ? [] : [name, rawHeaders[index + 1] ?? ''];
  });
  const { ['x-forwarded-for']: before } = request.headers;
  const address = socket.remoteAddress ?? '';
  const chain = before === undefined ? address : `${String(before)}, ${address}`;
  const hasBody = body.length > 0 || request.headers['content-length'] !== undefined;
  return [
    ...kept,
    ...['X-Forwarded-For', chain, 'X-Forwarded-Proto', 'http'],
    ...(hasBody ? ['Content-Length', String(body.length)] : []),
  ];
}

function answerHeaders({ rawHeaders }: IncomingMessage): string[] {
  const ofConnection = new Set(['connection', 'keep-alive', 'transfer-encoding']);
  return rawHeaders.flatMap((name, index) =>
    index % 2 === 1 || ofConnection.has(name.toLowerCase()) ? [] : [name, rawHeaders[index + 1] ?? ''],
  );
}

/** Resolves when the answer is on its way to the client. @throws ForwardError when there was none */
function forward(
  request: IncomingMessage,
  response: ServerResponse,
  body: Buffer,
  { host, port, agent }: Upstream,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = headersFor(request, body);
    const { method = 'GET', url: path = '/' } = request;
    let isConnected = false;
    const sent = requestOf({ host, port, agent, method, path, headers, setHost: false }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answerHeaders(answer));
      // Of an answer that breaks off the client must see that: its connection is cut.
      pipeline(answer, response, () => undefined);
      resolve();
    });
    const abandon = () => {
      if (!response.writableFinished) sent.destroy();
    };
    response.once('close', abandon);
    sent.on('socket', (socket) => {
      isConnected = !socket.connecting;
      socket.once('connect', () => (isConnected = true));
    });
    sent.setTimeout(answerTimeoutMs, () => sent.destroy(new Error('no answer in time')));
    sent.on('error', (error) => {
      response.off('close', abandon);
      reject(new ForwardError(!isConnected, error));
    });
    sent.end(body);
  });
}

/** Gives the request to one replica after another: to a further one only when that cannot do anything twice. */
async function forwardToAny(
  request: IncomingMessage,
  response: ServerResponse,
  upstreams: Upstreams,
  logger: Logger,
): Promise<void> {
  const body = await collect(request);
  for (const upstream of upstreams.inTurn()) {
    try {
      return await forward(request, response, body, upstream);
    } catch (error) {
      if (!(error instanceof ForwardError) || response.destroyed) throw error;
      logger.warn({ port: upstream.port, ...errorFields(error.cause) }, 'a service does not answer');
      if (error.isUnsent) upstreams.avoid(upstream);
      if (!error.isUnsent && !safeMethods.has(request.method ?? '')) break;
    }
  }
  throw new UnavailableError(
    'The service does not answer. Whether the request was carried out is not known.',
  );
}

/** Sends each request to the service that answers it. */
export function createProxy({ upstreams, logger }: ProxyOptions): RequestListener {
  return (request, response) => {
    const service = serviceOf(request.method ?? 'GET', request.url ?? '/');
    if (!service) {
      refuse(request, response, new DomainError('not_found', 'There is nothing at this path.'));
      return;
    }
    forwardToAny(request, response, upstreams[service], logger).catch((error: unknown) =>
      refuse(request, response, error instanceof Error ? error : new Error('unknown', { cause: error })),
    );
  };
}
