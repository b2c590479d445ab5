import type { AppendRequest } from '../append-request.ts';
import { EventStoreUnavailableError, RevisionConflictError, type AppendResult } from '../port.ts';

interface Waiting {
  readonly request: AppendRequest;
  readonly resolve: (result: AppendResult | Promise<AppendResult>) => void;
  readonly reject: (error: Error) => void;
}

type Send = (request: AppendRequest) => Promise<AppendResult>;

/** Limits of a combined append. A single append may be larger. */
const maxEvents = 200;
const maxBytes = 256 * 1024;

/**
 * Queues of appends that do not expect a revision, one queue for each stream. While one append of a stream is under way, the others wait;
 * then they are sent as one append. The records of all reads of a tenant go to one stream, to which the server writes one append after the
 * other.
 */
export class AppendQueues {
  readonly #send: Send;
  readonly #maxWaitMs: number;
  /** The waiting appends, for each stream with an append under way. */
  readonly #streams = new Map<string, Waiting[]>();
  #onIdle: (() => void)[] = [];

  /** An append that has waited for `maxWaitMs` is refused, because the server may hang: it is not sent. */
  constructor(send: Send, maxWaitMs: number) {
    this.#send = send;
    this.#maxWaitMs = maxWaitMs;
  }

  append(request: AppendRequest): Promise<AppendResult> {
    const queue = this.#streams.get(request.stream);
    if (!queue) return this.#runNext(request.stream, () => this.#send(request));
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        request,
        resolve: (result) => (clearTimeout(timer), resolve(result)),
        reject: (error) => (clearTimeout(timer), reject(error)),
      };
      const timer = setTimeout(() => {
        const index = queue.indexOf(waiting);
        // The append may be under way by now.
        if (index === -1) return;
        queue.splice(index, 1);
        reject(new EventStoreUnavailableError('the append waited too long for its turn'));
      }, this.#maxWaitMs);
      queue.push(waiting);
    });
  }

  /** Resolves when no append is under way, and none waits. */
  async idle(): Promise<void> {
    if (this.#streams.size > 0) await new Promise<void>((resolve) => this.#onIdle.push(resolve));
  }

  /** Runs `call`, then the appends that were queued for the same stream meanwhile. */
  async #runNext<Result>(stream: string, call: () => Promise<Result>): Promise<Result> {
    const queue = this.#streams.get(stream) ?? [];
    this.#streams.set(stream, queue);
    try {
      return await call();
    } finally {
      const batch = takeFrom(queue);
      if (batch.length === 0) this.#removeQueue(stream);
      else void this.#runNext(stream, () => this.#sendBatch(batch));
    }
  }

  #removeQueue(stream: string): void {
    this.#streams.delete(stream);
    if (this.#streams.size > 0) return;
    for (const resolve of this.#onIdle.splice(0)) resolve();
  }

  /** Settles every append of the batch, and does not throw. */
  async #sendBatch(batch: readonly Waiting[]): Promise<void> {
    const [first] = batch;
    if (!first) return;
    const requests = batch.map(({ request }) => request);
    const events = requests.flatMap((request) => request.events);
    const bytes = requests.reduce((sum, request) => sum + request.bytes, 0);
    const keys = requests.flatMap((request) => request.keys);
    try {
      const { position, revision } = await this.#send({ ...first.request, events, bytes, keys });
      let after = events.length;
      for (const { request, resolve } of batch) {
        after -= request.events.length;
        resolve({ position, revision: revision - after });
      }
    } catch (error) {
      // Nothing was stored. One append of the batch repeats a stored append, so the server accepts the batch only one by one.
      if (error instanceof RevisionConflictError && batch.length > 1)
        for (const { request, resolve } of batch) resolve(this.#send(request));
      else for (const { reject } of batch) reject(error as Error);
    }
  }
}

function takeFrom(queue: Waiting[]): Waiting[] {
  let [events, bytes, count] = [0, 0, 0];
  for (const { request } of queue) {
    events += request.events.length;
    bytes += request.bytes;
    if (count > 0 && (events > maxEvents || bytes > maxBytes)) break;
    count++;
  }
  return queue.splice(0, count);
}
