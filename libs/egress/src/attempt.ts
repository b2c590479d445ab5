import type { IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import type { Agent, Dispatcher } from 'undici';
import { asEgressError, responseTooLarge, timedOut } from './failures.ts';
import type { Hop } from './redirects.ts';
import { toPairs } from './request.ts';

export interface Attempt {
  readonly agent: Agent;
  readonly hop: Hop;
  /** Ends the exchange, also while the body of the answer is being read. */
  readonly signal: AbortSignal;
  /** The time at which the exchange ends at the latest, on the clock of `performance.now()`. */
  readonly endsAtMs?: number;
  /** After this time, on the same clock, the request does not leave any more. */
  readonly startsUntilMs: number;
  /** Time limit for the arrival of the head of the answer, and for each pause within its body. */
  readonly answerTimeoutMs?: number;
  readonly maxResponseBytes: number;
}

export interface ArrivingAnswer {
  readonly status: number;
  readonly statusText: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** Arrives no faster than it is read. Fails with an EgressError. The receiver must read it to its end, or destroy it. */
  readonly body: Readable;
}

/** Thrown before the first byte is written. The connection stays open for the next attempt. */
export class PermissionExpiredError extends Error {}

/** The body of an answer, which ends the exchange when it is destroyed early. It may fail before it has a reader. */
class AnswerBody extends Readable {
  readonly #controller: Dispatcher.DispatchController;
  readonly #maxBytes: number;
  readonly #onClose: () => void;
  #size = 0;
  #isWhole = false;

  constructor(controller: Dispatcher.DispatchController, maxBytes: number, onClose: () => void) {
    super();
    this.#controller = controller;
    this.#maxBytes = maxBytes;
    this.#onClose = onClose;
    this.on('error', () => undefined);
  }

  receive(chunk: Buffer): void {
    this.#size += chunk.length;
    if (this.#size > this.#maxBytes) this.destroy(responseTooLarge());
    else if (!this.push(chunk)) this.#controller.pause();
  }

  finish(): void {
    this.#isWhole = true;
    this.push(null);
  }

  override _read(): void {
    this.#controller.resume();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#onClose();
    if (!this.#isWhole) this.#controller.abort(error ?? new Error('the answer is not read to its end'));
    callback(error);
  }
}

/** One exchange with a server. undici calls its methods. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly head = Promise.withResolvers<ArrivingAnswer>();
  readonly #attempt: Attempt;
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #onAbort: () => void;
  #controller: Dispatcher.DispatchController | undefined;
  #body: AnswerBody | undefined;
  #failure: Error | undefined;

  constructor(attempt: Attempt) {
    this.#attempt = attempt;
    const { signal, endsAtMs } = attempt;
    this.#onAbort = () => this.#fail(signal.reason as Error);
    signal.addEventListener('abort', this.#onAbort);
    if (endsAtMs !== undefined)
      this.#timer = setTimeout(() => this.#fail(timedOut()), endsAtMs - performance.now()).unref();
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    // Nothing is written when this throws, and the connection stays open.
    if (this.#failure) throw this.#failure;
    if (performance.now() > this.#attempt.startsUntilMs) throw new PermissionExpiredError();
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    given: IncomingHttpHeaders,
    statusText = '',
  ): void {
    if (status < 200) return;
    const { hop, maxResponseBytes } = this.#attempt;
    const headers = toPairs(given);
    const announced = Number(headers.find(([name]) => name === 'content-length')?.[1] ?? 0);
    if (hop.method !== 'HEAD' && announced > maxResponseBytes) throw responseTooLarge();
    const body = new AnswerBody(controller, maxResponseBytes, () => this.#release());
    this.#body = body;
    this.head.resolve({ status, statusText, headers, body });
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#body?.receive(chunk);
  }

  onResponseEnd(): void {
    this.#body?.finish();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#fail(error);
  }

  #fail(error: Error): void {
    const failure =
      error instanceof PermissionExpiredError ? error : asEgressError(error, this.#attempt.signal);
    this.#failure ??= failure;
    if (this.#body) {
      this.#body.destroy(failure);
      return;
    }
    this.#release();
    this.head.reject(failure);
    this.#controller?.abort(failure);
  }

  #release(): void {
    clearTimeout(this.#timer);
    this.#attempt.signal.removeEventListener('abort', this.#onAbort);
  }
}

/** Writes a request once. Gives its answer as soon as the head has arrived. @throws EgressError, PermissionExpiredError */
export async function attemptOnce(attempt: Attempt): Promise<ArrivingAnswer> {
  const { agent, hop, signal, answerTimeoutMs } = attempt;
  if (signal.aborted) throw asEgressError(signal.reason, signal);
  const { url, method, headers, body } = hop;
  const exchange = new Exchange(attempt);
  const timeouts =
    answerTimeoutMs === undefined ? {} : { headersTimeout: answerTimeoutMs, bodyTimeout: answerTimeoutMs };
  agent.dispatch(
    {
      origin: url.origin,
      path: url.pathname + url.search,
      method,
      headers: headers.flatMap(([name, value]) => [name, value]),
      body: body ?? null,
      ...timeouts,
    },
    exchange,
  );
  return exchange.head.promise;
}
