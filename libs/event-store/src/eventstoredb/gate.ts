import { EventStoreUnavailableError } from '../port.ts';

interface Waiting {
  readonly enter: () => void;
  readonly leave: (error: Error) => void;
}

/**
 * Lets a limited number of calls run at once, in order of arrival. A call that waits too long is refused. That time is well below the
 * deadline of a call: calls that queue behind ones that a hanging server lets time out must not be sent to that server too.
 */
export class Gate {
  readonly #capacity: number;
  readonly #maxWaitMs: number;
  readonly #queue = new Set<Waiting>();
  #inside = 0;
  #onEmpty: (() => void)[] = [];

  constructor(capacity: number, maxWaitMs: number) {
    this.#capacity = capacity;
    this.#maxWaitMs = maxWaitMs;
  }

  /** @throws EventStoreUnavailableError when the call did not get its turn in time: `call` was not made. */
  async pass<Result>(call: () => Promise<Result>): Promise<Result> {
    if (this.#inside >= this.#capacity) await this.#wait();
    else this.#inside++;
    try {
      return await call();
    } finally {
      this.#exit();
    }
  }

  /** Resolves when no call runs or waits. */
  async idle(): Promise<void> {
    if (this.#inside > 0) await new Promise<void>((resolve) => this.#onEmpty.push(resolve));
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
    this.#inside--;
    if (this.#inside > 0) return;
    for (const resolve of this.#onEmpty.splice(0)) resolve();
  }
}
