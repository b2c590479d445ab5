import type { ServerResponse } from 'node:http';

/** Bodies of this size and more count; smaller ones are bounded by the number of connections. */
const countedBytes = 16 * 1024;
/** Bytes of bodies and answers that one process holds for its clients. A container of the examples has 512 MiB and more. */
const defaultLimitBytes = 128 * 1024 * 1024;
/** An answer that its reader takes no byte of for so long is cut. */
const stalledReaderMs = 30_000;

/**
 * Bounds the memory that clients can fill with bodies they send and answers they do not read. Each connection alone is bounded by the
 * largest body; hundreds of them together are not.
 */
export class InFlightBytes {
  readonly #limit: number;
  readonly #stalledReaderMs: number;
  #held = 0;
  readonly #sizes = new WeakMap<ServerResponse, number>();

  constructor(limit = defaultLimitBytes, stalledReader = stalledReaderMs) {
    this.#limit = limit;
    this.#stalledReaderMs = stalledReader;
  }

  get held(): number {
    return this.#held;
  }

  /** Counts part of a request body until its answer is done; false when the process holds as much as it may. */
  admits(size: number, response: ServerResponse): boolean {
    if (this.#held + size > this.#limit) return false;
    this.#hold(size, response);
    return true;
  }

  /** Counts an answer until it is sent. It was decided and recorded, so it is never refused; it keeps later bodies out. */
  send(response: ServerResponse, bytes: Buffer): void {
    // Node's timer starts again whenever the reader has taken something.
    response.setTimeout(this.#stalledReaderMs);
    if (bytes.length >= countedBytes) this.#hold(bytes.length, response);
    response.end(bytes);
  }

  #hold(size: number, response: ServerResponse): void {
    this.#held += size;
    const before = this.#sizes.get(response);
    this.#sizes.set(response, (before ?? 0) + size);
    if (before !== undefined) return;
    // After `finish`, and after a connection that broke.
    response.once('close', () => {
      this.#held -= this.#sizes.get(response) ?? 0;
      this.#sizes.delete(response);
    });
  }
}

/** One for the process: memory is. */
export const inFlight = new InFlightBytes();
