import { setTimeout as pause } from 'node:timers/promises';

const firstDelayMs = 100;
const maxDelayMs = 5_000;

/** Pauses that grow with repeated failures, and start again at the first length after a success. */
export class Backoff {
  readonly #signal: AbortSignal;
  #failures = 0;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  succeed(): void {
    this.#failures = 0;
  }

  /** Ends early, without an error, when the signal aborts. */
  async pause(): Promise<void> {
    const delayMs = Math.min(firstDelayMs * 2 ** this.#failures++, maxDelayMs);
    await pause(delayMs, undefined, { signal: this.#signal }).catch(() => undefined);
  }
}
