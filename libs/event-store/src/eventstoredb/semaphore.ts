import { EventStoreUnavailableError } from '../port.ts';

interface Waiting {
  readonly enter: () => void;
  readonly leave: (error: Error) => void;
}

/**
 * Limits the number of concurrent calls. Calls get their turn in order of arrival, and a call that waits too long is refused. The limit of
 * the wait is well below the deadline of a call: while the server hangs, the waiting calls must not be sent to it too.
 */
export class Semaphore {
  readonly #capacity: number;
  readonly #maxWaitMs: number;
  readonly #queue = new Set<Waiting>();
  #running = 0;
  #onIdle: (() => void)[] = [];

  constructor(capacity: number, maxWaitMs: number) {
    this.#capacity = capacity;
    this.#maxWaitMs = maxWaitMs;
  }

  /** @throws EventStoreUnavailableError when the call did not get its turn in time: `call` was not made. */
  async run<Result>(call: () => Promise<Result>): Promise<Result> {
    if (this.#running >= this.#capacity) await this.#wait();
    else this.#running++;
    try {
      return await call();
    } finally {
      this.#exit();
    }
  }

  /** Resolves when no call runs or waits. */
  async idle(): Promise<void> {
    if (this.#running > 0) await new Promise<void>((resolve) => this.#onIdle.push(resolve));
  }

  #wait(): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        enter: () => (clearTimeout(timer), resolve()),
        leave: reject,
      };
      const timer = setTimeout(() => {
        this.#queue.delete(waiting);
        waiting.leave(new EventStoreUnavailableError('the call waited too long for its turn'));
      }, this.#maxWaitMs);
      this.#queue.add(waiting);
    });
  }

  /** Gives the place to the next call in the queue, or frees it. */
  #exit(): void {
    const [next] = this.#queue;
    if (next) {
      this.#queue.delete(next);
      return next.enter();
    }
    this.#running--;
    if (this.#running > 0) return;
    for (const resolve of this.#onIdle.splice(0)) resolve();
  }
}
