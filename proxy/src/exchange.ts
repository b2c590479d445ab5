import { ProxyAnswered, ProxyInvoked, type VaultEvent } from '@token-vault/contracts';
import type { Position } from '@token-vault/event-store';
import { EgressError, type EgressAnswer } from '@token-vault/egress';
import type { ProxyOutcome } from '@token-vault/observability';
import type { AuditTrail, RequestContext } from '@token-vault/operations';
import type { Readable } from 'node:stream';

interface Begin {
  readonly audit: AuditTrail;
  readonly context: RequestContext;
  readonly destination: URL;
  readonly method: string;
  readonly tokenIds: readonly string[];
  /** Unset for a request that names its destination itself. */
  readonly proxyId?: string | undefined;
}

/** The records of one exchange: its beginning, stored before anything is sent, and its end. */
export class Exchange {
  readonly #begin: Begin;
  readonly #id: string;
  readonly #sinceMs = performance.now();
  #status: number | undefined;
  #requestBytes = 0;
  #responseBytes = 0;

  constructor(begin: Begin) {
    this.#begin = begin;
    this.#id = begin.context.newEntityId();
  }

  get id(): string {
    return this.#id;
  }

  /** Durable when it resolves. `use`: the record of the tokens, which is of the same append. */
  async begin(use: readonly VaultEvent[]): Promise<Position> {
    const { audit, context, destination, method, tokenIds, proxyId } = this.#begin;
    const { proxyKeyId } = context.principal;
    const invoked = context.event(ProxyInvoked, {
      invocation_id: this.#id,
      destination: destination.origin,
      method,
      token_ids: [...tokenIds],
      ...(proxyId === undefined ? {} : { proxy_id: proxyId }),
      ...(proxyKeyId === undefined ? {} : { key_id: proxyKeyId }),
    });
    return audit.recordAll(context, [invoked, ...use]);
  }

  /** The destination has answered a request with a body of so many bytes. */
  sent(bytes: number, { status }: Pick<EgressAnswer, 'status'>): void {
    this.#requestBytes = bytes;
    this.#status = status;
  }

  /** The failure of an exchange whose caller gets no answer. */
  failureBy(error: unknown): string {
    return this.#status === undefined ? failureOf(error) : 'answer-withheld';
  }

  /** Counts the answer as it is read. `ended` is called once, with the error that ended it early. */
  watch({ body }: Pick<EgressAnswer, 'body'>, ended: (failure: string | undefined) => void): Readable {
    if (body.closed) {
      ended(body.errored ? failureOf(body.errored) : 'client-gone');
      return body;
    }
    let failure: string | undefined = 'client-gone';
    body.on('data', (chunk: Buffer) => (this.#responseBytes += chunk.length)).pause();
    body.once('end', () => (failure = undefined));
    body.once('error', (error) => (failure = failureOf(error)));
    body.once('close', () => ended(failure));
    return body;
  }

  async end(failure: string | undefined): Promise<void> {
    const { audit, context, proxyId } = this.#begin;
    await audit.record(context, ProxyAnswered, {
      ...(proxyId === undefined ? {} : { proxy_id: proxyId }),
      invocation_id: this.#id,
      ...(this.#status === undefined ? {} : { status: this.#status }),
      request_bytes: this.#requestBytes,
      response_bytes: this.#responseBytes,
      duration_ms: Math.round(performance.now() - this.#sinceMs),
      ...(failure === undefined ? {} : { failure }),
    });
  }
}

/** A fixed word, because the message of an error may quote data. */
function failureOf(error: unknown): string {
  if (error instanceof EgressError) return error.code === 'aborted' ? 'client-gone' : error.code;
  return error instanceof Error && error.name === 'AbortError' ? 'client-gone' : 'not-sent';
}

const outcomes: Readonly<Record<string, ProxyOutcome>> = {
  'refused-address': 'refused',
  'refused-scheme': 'refused',
  network: 'failed',
  'response-too-large': 'failed',
  timeout: 'timed-out',
  'answer-withheld': 'withheld',
  'client-gone': 'client-gone',
};

/** The outcome of an exchange for the metrics. `failure`: as the log has it. */
export const outcomeOf = (failure: string | undefined): ProxyOutcome =>
  failure === undefined ? 'answered' : (outcomes[failure] ?? 'not-sent');
