import { Readable } from 'node:stream';
import { request as ask, type Dispatcher } from 'undici';
import { asEgressError, responseTooLarge } from './failures.ts';
import { permitted, RefusedError, type Permit } from './permit.ts';
import { firstHop, toPairs, type Asked } from './request.ts';
import type { TenantAgents } from './tenant-agents.ts';

export interface EgressSending extends Asked {
  /** Whose request it is: connections and look-ups of tenants are apart. */
  readonly tenantId: string;
  /** Ends the exchange, also while the body of the answer is being read. */
  readonly signal: AbortSignal;
  readonly permit?: Permit;
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
    const answer = await permitted(request.permit, agents.of(request.tenantId), start).catch(
      (error: unknown) => {
        throw error instanceof RefusedError ? error.cause : asEgressError(error, signal);
      },
    );
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
