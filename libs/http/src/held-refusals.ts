import { setTimeout } from 'node:timers/promises';

/** Resolves after this time. Rejects when `signal` is aborted. */
export type Pause = (ms: number, signal: AbortSignal) => Promise<void>;

/** The response: it closes when the client disconnects. */
export interface Leaving {
  once(event: 'close', listener: () => void): unknown;
  off(event: 'close', listener: () => void): unknown;
}

const heldMs = 1_000;
/**
 * A held request has its connection, and nothing that other requests need. Of its body it has no more than Node reads before it pauses. One
 * address has half of the places at most.
 */
const mostHeld = 1_000;
const mostOfAddress = 500;

const pauseOfTimer: Pause = (ms, signal) => setTimeout(ms, undefined, { signal });

/**
 * Refusals of requests without a key, from an address with too many of them, wait for a second. So each connection of a flood makes few such
 * requests, and opening connections takes less of the thread that serves all tenants. A refusal that finds no place ends its connection.
 */
export class HeldRefusals {
  readonly #pause: Pause;
  readonly #heldOf = new Map<string, number>();
  #held = 0;

  constructor(pause: Pause = pauseOfTimer) {
    this.#pause = pause;
  }

  /** Resolves to true when the refusal was held, or the client has left; to false at once when too many wait. */
  async hold(address: string, client?: Leaving): Promise<boolean> {
    if (this.#held >= mostHeld || (this.#heldOf.get(address) ?? 0) >= mostOfAddress) return false;
    this.#count(address, 1);
    const gone = new AbortController();
    const end = () => gone.abort();
    client?.once('close', end);
    await this.#pause(heldMs, gone.signal).catch(() => undefined);
    client?.off('close', end);
    this.#count(address, -1);
    return true;
  }

  #count(address: string, change: 1 | -1): void {
    this.#held += change;
    const ofAddress = (this.#heldOf.get(address) ?? 0) + change;
    if (ofAddress > 0) this.#heldOf.set(address, ofAddress);
    else this.#heldOf.delete(address);
  }
}
