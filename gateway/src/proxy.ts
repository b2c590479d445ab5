import {
  DomainError,
  OutcomeUnknownError,
  UnauthenticatedError,
  UnavailableError,
  ValidationError,
} from '@token-vault/contracts';
import { collectBody, errorFields, refuse, type Logger } from '@token-vault/service-kit';
import {
  request as requestOf,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http';
import { pipeline } from 'node:stream';
import { destinationOf, originForm, type Service } from './routes.ts';
import type { Upstream, Upstreams } from './upstreams.ts';

/** Longer than the longest synchronous invocation. */
const answerTimeoutMs = 240_000;
/** A client that takes no byte of its answer for so long is cut. */
const stalledReaderMs = 30_000;
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
  get isLate(): boolean {
    return this.cause instanceof AnswerTimeoutError;
  }
}

class AnswerTimeoutError extends Error {}

export interface ProxyOptions {
  readonly upstreams: Readonly<Record<Service, Upstreams>>;
  readonly logger: Logger;
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

interface Forwarded {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** In origin form. */
  readonly target: string;
  readonly body: Buffer;
}

/** Resolves when the answer is on its way to the client. @throws ForwardError when there was none */
function forward(
  { request, response, target: path, body }: Forwarded,
  { host, port, agent }: Upstream,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = headersFor(request, body);
    const { method = 'GET' } = request;
    let isConnected = false;
    const sent = requestOf({ host, port, agent, method, path, headers, setHost: false }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answerHeaders(answer));
      // The services cut a stalled reader as well, but see only this process.
      response.setTimeout(stalledReaderMs);
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
    sent.setTimeout(answerTimeoutMs, () => sent.destroy(new AnswerTimeoutError('no answer in time')));
    sent.on('error', (error) => {
      response.off('close', abandon);
      reject(new ForwardError(!isConnected, error));
    });
    sent.end(body);
  });
}

/**
 * Gives the request to one replica after another: to a further one only when that cannot do anything twice.
 * @throws UnavailableError when no replica did anything, OutcomeUnknownError when one may have
 */
async function forwardToAny(forwarded: Forwarded, upstreams: Upstreams, logger: Logger): Promise<void> {
  const { request, response } = forwarded;
  const isSafe = safeMethods.has(request.method ?? '');
  for (const upstream of upstreams.inTurn()) {
    try {
      return await forward(forwarded, upstream);
    } catch (error) {
      if (!(error instanceof ForwardError) || response.destroyed) throw error;
      logger.warn({ port: upstream.port, ...errorFields(error.cause) }, 'a service does not answer');
      if (error.isUnsent) upstreams.avoid(upstream);
      else if (!isSafe)
        throw new OutcomeUnknownError(error.isLate ? 'outcome_unknown_in_time' : 'outcome_unknown', {
          cause: error,
        });
    }
  }
  throw new UnavailableError('No service of the vault answers now. Nothing was done; try again.');
}

/** Sends each request to the service that answers it. */
export function createProxy({ upstreams, logger }: ProxyOptions): RequestListener {
  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const target = originForm(request.url ?? '/');
    if (target === undefined) throw ValidationError.of('path', 'is not the path of a request');
    const destination = destinationOf(request.method ?? 'GET', target);
    if (!destination) throw new DomainError('not_found', 'There is nothing at this path.');
    // Before the body is read: without a key it would only take memory.
    if (destination.needsKey && !request.headers['svc-api-key']) throw new UnauthenticatedError();
    const body = await collectBody(request, response);
    await forwardToAny({ request, response, target, body }, upstreams[destination.service], logger);
  }
  return (request, response) => {
    handle(request, response).catch((error: unknown) =>
      refuse(request, response, error instanceof Error ? error : new Error('unknown', { cause: error })),
    );
  };
}
