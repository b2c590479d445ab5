import { EventStoreUnavailableError } from '../port.ts';

interface Waiting {
  readonly enter: () => void;
  readonly leave: (error: Error) => void;
}

/**
 * Lets a bounded number of calls through at once, in the order they came. Who waits too long is turned away. That time is
 * well below the deadline of a call: who came after calls that a hanging server lets run out must not be sent there too.
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

  /** @throws EventStoreUnavailableError when it was not its turn in time: `call` was not made. */
  async pass<Result>(call: () => Promise<Result>): Promise<Result> {
    if (this.#inside >= this.#capacity) await this.#wait();
    else this.#inside++;
    try {
      return await call();
    } finally {
      this.#exit();
    }
  }

  /** Resolves when nobody is inside or waits. */
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

  /** The place goes to the next in the queue, or becomes free. */
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
