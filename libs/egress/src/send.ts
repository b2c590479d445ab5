import { Readable } from 'node:stream';
import { DecoratorHandler, request as ask, type Agent, type Dispatcher } from 'undici';
import { asEgressError, responseTooLarge } from './failures.ts';
import { firstHop, toPairs, type Asked } from './request.ts';
import type { TenantAgents } from './tenant-agents.ts';

export interface EgressSending extends Asked {
  /** Whose request it is: connections and look-ups of tenants are apart. */
  readonly tenantId: string;
  /** Ends the exchange, also while the body of the answer is being read. */
  readonly signal: AbortSignal;
  /**
   * Decides whether the request may leave. Called before each attempt, and again when the connection took long: the first byte leaves at
   * most 100 ms after the decision. The request fails with the error of this function.
   */
  readonly permit?: () => Promise<void>;
}

/** An answer as it came: a redirect is not followed, nothing is decompressed. */
export interface EgressAnswer {
  readonly status: number;
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** Read no faster than its reader takes it. Fails with an EgressError. The receiver must read it to its end, or destroy it. */
  readonly body: Readable;
}

/** @throws {EgressError} before there is an answer */
export type EgressSend = (request: EgressSending) => Promise<EgressAnswer>;

export interface SendOptions {
  readonly maxRequestBytes: number;
  readonly maxResponseBytes: number;
  /** Until the head of the answer, and longest pause within its body. */
  readonly answerTimeoutMs?: number;
  /** Of the whole exchange. */
  readonly timeoutMs?: number;
}

/** A decision to send is used for no longer than this. A look-up, a connection or a handshake may take seconds. */
const permittedMs = 100;
/** With a connection that exists, the next attempt leaves at once. A server that closes it each time is given up. */
const attempts = 5;

/** Thrown before the first byte is written. The connection stays open for the next attempt. */
class PermissionExpiredError extends Error {}

/** Stops a request whose connection is there only after `untilMs`. */
function startedBy(untilMs: number): Dispatcher.DispatcherComposeInterceptor {
  return (dispatch) => (options, handler) => {
    const starting: Dispatcher.DispatchHandler = new DecoratorHandler(handler);
    const start = starting.onRequestStart?.bind(starting);
    starting.onRequestStart = (...started) => {
      if (performance.now() > untilMs) throw new PermissionExpiredError();
      start?.(...started);
    };
    return dispatch(options, starting);
  };
}

/** Sends one request and gives the answer while it is still coming. */
export function createSend(agents: TenantAgents, options: SendOptions): EgressSend {
  const { maxRequestBytes, maxResponseBytes, timeoutMs = 120_000 } = options;
  const { answerTimeoutMs = 30_000 } = options;
  return async (request) => {
    const hop = firstHop(request, maxRequestBytes);
    const signal = AbortSignal.any([AbortSignal.timeout(timeoutMs), request.signal]);
    const start = (dispatcher: Dispatcher) =>
      ask(hop.url, {
        dispatcher,
        method: hop.method,
        headers: hop.headers.flatMap(([name, value]) => [name, value]),
        body: hop.body ?? null,
        signal,
        headersTimeout: answerTimeoutMs,
        bodyTimeout: answerTimeoutMs,
      });
    const answer = await permitted(request, agents.of(request.tenantId), start).catch((error: unknown) => {
      throw error instanceof RefusedError ? error.cause : asEgressError(error, signal);
    });
    try {
      const headers = toPairs(answer.headers);
      const announced = Number(headers.find(([name]) => name === 'content-length')?.[1] ?? 0);
      if (hop.method !== 'HEAD' && announced > maxResponseBytes) {
        answer.body.on('error', () => undefined).destroy();
        throw responseTooLarge();
      }
      const body = Readable.from(bounded(answer.body, maxResponseBytes, signal), { objectMode: false });
      // Were it never read, the generator would not have begun, and the connection would stay open.
      body.once('close', () => answer.body.on('error', () => undefined).destroy());
      return { status: answer.statusCode, headers, body };
    } catch (error) {
      throw asEgressError(error, signal);
    }
  };
}

/** The error of `permit`, so that it is not taken for one of the exchange. */
class RefusedError extends Error {}

async function permitted<Answer>(
  { permit }: EgressSending,
  agent: Agent,
  start: (dispatcher: Dispatcher) => Promise<Answer>,
): Promise<Answer> {
  if (!permit) return start(agent);
  for (let attempt = 1; ; attempt += 1) {
    await permit().catch((cause: unknown) => {
      throw new RefusedError('refused', { cause });
    });
    try {
      return await start(agent.compose(startedBy(performance.now() + permittedMs)));
    } catch (error) {
      if (!(error instanceof PermissionExpiredError) || attempt === attempts) throw error;
    }
  }
}

async function* bounded(body: Readable, maxBytes: number, signal: AbortSignal): AsyncGenerator<Buffer> {
  let size = 0;
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > maxBytes) throw responseTooLarge();
      yield chunk;
    }
  } catch (error) {
    throw asEgressError(error, signal);
  }
}
