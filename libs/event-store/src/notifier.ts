/**
 * Wakes all waiting callers. A notification that comes before the wait is not remembered: check the state first, then wait. Each
 * notification replaces the list of waiting callers: a Set would keep removed callers alive (ADR 13).
 */
export class Notifier {
  #waiting: (() => void)[] = [];

  notifyAll(): void {
    const woken = this.#waiting;
    this.#waiting = [];
    for (const wake of woken) wake();
  }

  /** Resolves at the next `notifyAll`, or when `signal` aborts. */
  wait(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted) return resolve();
      const wake = () => {
        this.#waiting = this.#waiting.filter((each) => each !== wake);
        signal.removeEventListener('abort', wake);
        resolve();
      };
      this.#waiting.push(wake);
      signal.addEventListener('abort', wake, { once: true });
    });
  }
}

/**
 * The promise's value, or undefined as soon as `signal` aborts. The abort listener is removed with it: a `Promise.race` against one
 * long-lived promise of the signal would keep a reaction for every batch ever read.
 */
export function untilAborted<Value>(
  promise: Promise<Value>,
  signal: AbortSignal | undefined,
): Promise<Value | undefined> {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const stop = () => resolve(undefined);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}
