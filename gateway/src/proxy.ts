import {
  DomainError,
  maxCustomHeaderBytes,
  OutcomeUnknownError,
  UnauthenticatedError,
  UnavailableError,
  ValidationError,
} from '@token-vault/contracts';
import {
  addressGroup,
  bodyLimitBytes,
  clientAddress,
  collectBody,
  cutOffStalledReader,
  inFlight,
  notBegunHeader,
  rawBodyLimitBytes,
  refuse,
  type TrustPeer,
} from '@token-vault/http';
import { errorFields, type Logger } from '@token-vault/observability';
import {
  request as requestOf,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http';
import { hash } from 'node:crypto';
import { destinationOf, originForm, type Service } from './routes.ts';
import { UpstreamFrozenError, type Upstream, type Upstreams } from './upstreams.ts';

/** Longer than the longest synchronous invocation. */
const answerTimeoutMs = 240_000;
/** The headers that reactor code may set, and those of the vault. Node reads 16 KiB by default. */
const maxHeaderSize = maxCustomHeaderBytes + 4 * 1024;
const safeMethods = new Set(['GET', 'HEAD']);
/** RFC 9110 7.6.1: headers of one connection only. Length and framing are made again. */
const hopByHop = new Set([
  'connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection', 'te', 'trailer',
  'transfer-encoding', 'upgrade', 'expect', 'content-length',
]); // prettier-ignore
/** The headers by which a proxy describes its client. Services believe those of this router, so it passes on only those of peers that it trusts. */
const aboutClient = /^(forwarded|x-forwarded-.*|x-real-ip)$/;

/** A replica did not answer. */
class ForwardError extends Error {
  /** The request was not sent, or the service has not begun yet: another replica may be tried, for any method. */
  readonly isUntaken: boolean;
  constructor(isUntaken: boolean, cause: unknown) {
    super('a service did not answer', { cause });
    this.isUntaken = isUntaken;
  }
  get isLate(): boolean {
    return this.cause instanceof AnswerTimeoutError || this.cause instanceof UpstreamFrozenError;
  }
}

class AnswerTimeoutError extends Error {}

export interface ProxyOptions {
  readonly upstreams: Readonly<Record<Service, Upstreams>>;
  readonly logger: Logger;
  /** The peers whose `X-Forwarded-For`, `-Host` and `-Proto` are passed on. */
  readonly trusts: TrustPeer;
  /** An answer is cut off when its client takes no byte for this time. 30 s by default. */
  readonly stalledReaderMs?: number;
}

/** The headers as received, without those of the connection and those about the client, which are made anew. */
function headersFor(request: IncomingMessage, body: Buffer, trusts: TrustPeer): string[] {
  const { rawHeaders } = request;
  const named = new Set((request.headers.connection ?? '').toLowerCase().split(/\s*,\s*/));
  const kept = rawHeaders.flatMap((name, index) => {
    if (index % 2 === 1) return [];
    const lower = name.toLowerCase();
    return hopByHop.has(lower) || named.has(lower) || aboutClient.test(lower)
      ? []
      : [name, rawHeaders[index + 1] ?? ''];
  });
  const hasBody = body.length > 0 || request.headers['content-length'] !== undefined;
  return [
    ...kept,
    ...forwardedHeaders(request, trusts),
    ...(hasBody ? ['Content-Length', String(body.length)] : []),
  ];
}

/** The addresses, scheme and host of the client, by the headers of the load balancer before this router where VAULT_TRUST_PROXY names it. */
function forwardedHeaders({ headers, socket }: IncomingMessage, trusts: TrustPeer): string[] {
  const address = socket.remoteAddress ?? '';
  if (!trusts(address, 0)) return ['X-Forwarded-For', address, 'X-Forwarded-Proto', 'http'];
  const { 'x-forwarded-for': before, 'x-forwarded-proto': scheme, 'x-forwarded-host': host } = headers;
  return [
    ...['X-Forwarded-For', before === undefined ? address : `${String(before)}, ${address}`],
    ...['X-Forwarded-Proto', scheme === 'https' ? 'https' : 'http'],
    ...(host === undefined ? [] : ['X-Forwarded-Host', String(host)]),
  ];
}

function answerHeaders({ rawHeaders }: IncomingMessage): string[] {
  const ofConnection = new Set(['connection', 'keep-alive', 'transfer-encoding']);
  return rawHeaders.flatMap((name, index) =>
    index % 2 === 1 || ofConnection.has(name.toLowerCase()) ? [] : [name, rawHeaders[index + 1] ?? ''],
  );
}

/** The router does not know tenants. Addresses divide the memory for bodies, and each address's part the keys that it sends, also wrong ones. */
function senderOf(request: IncomingMessage, trusts: TrustPeer) {
  const { 'svc-api-key': key, cookie } = request.headers;
  return {
    tenantId: addressGroup(clientAddress(request, trusts)),
    applicationId: hash('sha256', String(key ?? cookie ?? '')),
  };
}

interface Forwarded {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** In origin form. */
  readonly target: string;
  readonly body: Buffer;
  readonly headers: readonly string[];
  /** A further replica may be asked when one has not answered. */
  readonly isSafe: boolean;
  /** It is for another server. */
  readonly isRaw: boolean;
  readonly stalledReaderMs: number | undefined;
}

/** Resolves when the answer is on its way to the client. @throws ForwardError when there was no answer */
function forward(
  { request, response, target: path, body, headers, isRaw, stalledReaderMs }: Forwarded,
  { host, port, agent }: Upstream,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const { method = 'GET' } = request;
    let isConnected = false;
    const options = { host, port, agent, method, path, headers, setHost: false, maxHeaderSize };
    const sent = requestOf(options, (answer) => {
      // Another server that a raw request is for could send this header, too.
      if (!isRaw && answer.headers[notBegunHeader.toLowerCase()] !== undefined) {
        answer.resume();
        return refused(true, new Error('the service is starting'));
      }
      // A service ends the connection of a client whose requests are refused and not held (ADR 24).
      if (answer.statusCode === 429 && answer.headers.connection === 'close')
        response.shouldKeepAlive = false;
      response.writeHead(answer.statusCode ?? 502, answerHeaders(answer));
      // The services cut off a stalled reader too, but their reader is this process.
      cutOffStalledReader(response, stalledReaderMs);
      // If an answer breaks off, the client must notice: its connection is cut. (`pipeline` would do this for a fifth of the CPU time of
      // this process.)
      answer.once('close', () => answer.complete || response.destroy());
      answer.pipe(response);
      resolve();
    });
    const abandon = () => {
      if (!response.writableFinished) sent.destroy();
    };
    response.once('close', abandon);
    const refused = (isUntaken: boolean, cause: Error) => {
      response.off('close', abandon);
      reject(new ForwardError(isUntaken, cause));
    };
    sent.on('socket', (socket) => {
      isConnected = !socket.connecting;
      // A kept-alive socket connects no more: a listener would stay on it.
      if (socket.connecting) socket.once('connect', () => (isConnected = true));
    });
    sent.setTimeout(answerTimeoutMs, () => sent.destroy(new AnswerTimeoutError('no answer in time')));
    sent.on('error', (error) => refused(!isConnected, error));
    sent.end(body);
  });
}

/**
 * Forwards the request to one replica after another. A second replica is tried only when the request cannot be done twice.
 * @throws UnavailableError when no replica did the request, OutcomeUnknownError when one may have done it
 */
async function forwardToAny(forwarded: Forwarded, upstreams: Upstreams, logger: Logger): Promise<void> {
  const { response, isSafe, isRaw } = forwarded;
  for (const upstream of upstreams.inTurn()) {
    try {
      return await forward(forwarded, upstream);
    } catch (error) {
      if (!(error instanceof ForwardError) || response.destroyed) throw error;
      logger.warn({ port: upstream.port, ...errorFields(error.cause) }, 'a service does not answer');
      if (error.isUntaken) upstreams.avoid(upstream);
      else if (isRaw)
        throw new DomainError(
          error.isLate ? 'destination_timed_out' : 'destination_failed',
          'The vault did not answer. The destination may have acted.',
          { cause: error },
        );
      else if (!isSafe)
        throw new OutcomeUnknownError(error.isLate ? 'outcome_unknown_in_time' : 'outcome_unknown', {
          cause: error,
        });
    }
  }
  throw new UnavailableError('No service of the vault answers now. Nothing was done; try again.');
}

/** Sends each request to the service that answers it. */
export function createProxy({ upstreams, logger, trusts, stalledReaderMs }: ProxyOptions): RequestListener {
  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const target = originForm(request.url ?? '/');
    if (target === undefined) throw ValidationError.of('path', 'is not the path of a request');
    const destination = destinationOf(request.method ?? 'GET', target);
    if (!destination) throw new DomainError('not_found', 'There is nothing at this path.');
    // Checked before the body is read: a request without a key would only use memory.
    const { 'svc-api-key': key, cookie } = request.headers;
    if (destination.needsKey && !key && !cookie) throw new UnauthenticatedError();
    const isRaw = destination.service === 'proxy';
    inFlight.assign(response, senderOf(request, trusts));
    const body = await collectBody(request, response, isRaw ? rawBodyLimitBytes : bodyLimitBytes);
    // A request that was sent to a server once is not sent to another one, for any method.
    const isSafe = !isRaw && safeMethods.has(request.method ?? '');
    const headers = headersFor(request, body, trusts);
    await forwardToAny(
      { request, response, target, body, headers, isSafe, isRaw, stalledReaderMs },
      upstreams[destination.service],
      logger,
    );
  }
  return (request, response) => {
    handle(request, response).catch((error: unknown) =>
      refuse(request, response, error instanceof Error ? error : new Error('unknown', { cause: error })),
    );
  };
}
