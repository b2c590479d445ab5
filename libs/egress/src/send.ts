import type { ArrivingAnswer } from './attempt.ts';
import { ask, type Permit } from './permit.ts';
import { firstHop, type Asked } from './request.ts';
import type { TenantAgents } from './tenant-agents.ts';

export interface EgressSending extends Asked {
  /** The tenant of the request. Each tenant has connections and look-ups of its own. */
  readonly tenantId: string;
  /** Ends the exchange, also while the body of the answer is being read. */
  readonly signal: AbortSignal;
  readonly permit?: Permit;
}

/** An answer as it came: a redirect is not followed, nothing is decompressed. */
export type EgressAnswer = Omit<ArrivingAnswer, 'statusText'>;

/** @throws {EgressError} before there is an answer */
export type EgressSend = (request: EgressSending) => Promise<EgressAnswer>;

export interface SendOptions {
  readonly maxRequestBytes: number;
  readonly maxResponseBytes: number;
  /** Time limit for the arrival of the head of the answer, and for each pause within its body. */
  readonly answerTimeoutMs?: number;
  /** Time limit of the whole exchange. */
  readonly timeoutMs?: number;
}

/** Sends one request and gives the answer as soon as its head has arrived. */
export function createSend(agents: TenantAgents, options: SendOptions): EgressSend {
  const { maxRequestBytes, maxResponseBytes, timeoutMs = 120_000 } = options;
  const { answerTimeoutMs = 30_000 } = options;
  return async (request) => {
    const { tenantId, signal, permit } = request;
    const hop = firstHop(request, maxRequestBytes);
    const endsAtMs = performance.now() + timeoutMs;
    const agent = agents.of(tenantId);
    return ask({ agent, hop, signal, endsAtMs, answerTimeoutMs, maxResponseBytes }, permit);
  };
}
