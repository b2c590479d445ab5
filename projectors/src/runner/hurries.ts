import { openListener } from '@token-vault/postgres';
import { comparePositions, isPosition, startPosition, type Position } from '@token-vault/event-store';
import { pause } from './leadership.ts';

const reconnectMs = 1_000;

/** The position that readers wait for. Readers may ask for any position, also for one that the log will never reach. */
export class Hurries {
  readonly #validMs: number;
  readonly #listeners = new Set<() => void>();
  #position = startPosition;
  #untilMs = 0;

  /** `validMs` is how long a hurry counts, for events that arrive after it. */
  constructor(validMs: number) {
    this.#validMs = validMs;
  }

  /** A reader waits for `position`. It does not prolong the time of a position beyond it. */
  hear(position: Position): void {
    const now = performance.now();
    if (now < this.#untilMs && comparePositions(position, this.#position) <= 0) return;
    this.#position = position;
    this.#untilMs = now + this.#validMs;
    for (const listener of this.#listeners) listener();
  }

  /** Whether a reader waits for an event after `position`. */
  isAwaitedBeyond(position: Position): boolean {
    return comparePositions(this.#position, position) > 0 && performance.now() < this.#untilMs;
  }

  /** Calls `listener` at each hurry. Gives the function that ends this. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/**
 * Receives the notifications of the readers of all processes until `signal` aborts. While the connection is lost, a
 * reader waits until the events are not held any more.
 */
export async function hearReaders(
  connectionString: string,
  hurries: Hurries,
  signal: AbortSignal,
): Promise<void> {
  const settings = { connectionString, application_name: 'projector hurries' };
  const channels = {
    projection_hurry: (position: string) => {
      if (isPosition(position)) hurries.hear(position);
    },
  };
  while (!signal.aborted) {
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    signal.addEventListener('abort', () => end(), { once: true });
    try {
      const client = await openListener(settings, channels, () => end());
      await ended;
      await client.end();
    } catch {
      // Without the connection the read models are only a moment later.
    }
    await pause(reconnectMs, signal);
  }
}
