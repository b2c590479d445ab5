import { setTimeout } from 'node:timers/promises';

/** Resolves after this time. Rejects when `signal` is aborted. */
export type Pause = (ms: number, signal: AbortSignal) => Promise<void>;

/** The response: it closes when the client disconnects. */
export interface Leaving {
  once(event: 'close', listener: () => void): unknown;
  off(event: 'close', listener: () => void): unknown;
}

const heldMs = 1_000;
/** A held request has its connection, and nothing that other requests need. */
const maxHeld = 1_000;

const pauseOfTimer: Pause = (ms, signal) => setTimeout(ms, undefined, { signal });

/**
 * Refusals of requests without a key, from an address with too many of them, wait for a second. So each connection of a flood makes few such
 * requests, and opening connections takes less of the thread that serves all tenants.
 */
export class HeldRefusals {
  readonly #pause: Pause;
  #held = 0;

  constructor(pause: Pause = pauseOfTimer) {
    this.#pause = pause;
  }

  /** Resolves when the refusal may be sent: at once when the client has left, or while a thousand refusals wait. */
  async hold(client?: Leaving): Promise<void> {
    if (this.#held >= maxHeld) return;
    this.#held += 1;
    const gone = new AbortController();
    const end = () => gone.abort();
    client?.once('close', end);
    await this.#pause(heldMs, gone.signal).catch(() => undefined);
    client?.off('close', end);
    this.#held -= 1;
  }
}
