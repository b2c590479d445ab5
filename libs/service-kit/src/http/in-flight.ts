import type { ServerResponse } from 'node:http';

/** Bodies of this size and more count; smaller ones are bounded by the number of connections. */
const countedBytes = 16 * 1024;
/** Bytes of bodies and answers that one process holds for its clients. A container of the examples has 512 MiB and more. */
const defaultLimitBytes = 128 * 1024 * 1024;
/** An answer that its reader takes no byte of for so long is cut. */
const stalledReaderMs = 30_000;

/**
 * Bounds the memory that clients can fill with bodies they send and answers they do not read. Each connection alone is bounded by the
 * largest body; hundreds of them together are not. One tenant has at most half of it, so that bodies of others always find room.
 */
export class InFlightBytes {
  readonly #limit: number;
  readonly #share: number;
  readonly #stalledReaderMs: number;
  readonly #heldBy = new Map<string, number>();
  #held = 0;
  readonly #sizes = new WeakMap<ServerResponse, number>();
  readonly #tenants = new WeakMap<ServerResponse, string>();

  constructor(limit = defaultLimitBytes, stalledReader = stalledReaderMs) {
    this.#limit = limit;
    this.#share = limit / 2;
    this.#stalledReaderMs = stalledReader;
  }

  get held(): number {
    return this.#held;
  }

  /** What is held for this answer counts for the tenant from now on. False when the tenant holds as much as it may. */
  assign(response: ServerResponse, tenantId: string): boolean {
    if (!this.#tenants.has(response)) this.#tenants.set(response, tenantId);
    return this.#heldOf(tenantId) < this.#share;
  }

  /** Counts part of a request body until its answer is done; false when the process or the tenant holds as much as it may. */
  admits(size: number, response: ServerResponse): boolean {
    const tenantId = this.#tenants.get(response);
    if (tenantId !== undefined && this.#heldOf(tenantId) + size > this.#share) return false;
    if (this.#held + size > this.#limit) return false;
    this.#hold(size, response);
    return true;
  }

  /** Counts an answer until it is sent. It was decided and recorded, so it is never refused; it keeps later bodies out. */
  send(response: ServerResponse, bytes: Buffer): void {
    if (bytes.length >= countedBytes) this.#hold(bytes.length, response);
    response.end(bytes);
    // Small answers are with the kernel by now. Node's timer starts again whenever the reader has taken something.
    if (response.writableLength > 0) response.setTimeout(this.#stalledReaderMs);
  }

  #heldOf(tenantId: string): number {
    return this.#heldBy.get(tenantId) ?? 0;
  }

  /** Answers may exceed the share of their tenant. What is beyond it must not keep out the bodies of others. */
  #count(tenantId: string | undefined, size: number): void {
    if (tenantId === undefined) {
      this.#held += size;
      return;
    }
    const before = this.#heldOf(tenantId);
    const after = before + size;
    if (after > 0) this.#heldBy.set(tenantId, after);
    else this.#heldBy.delete(tenantId);
    this.#held += Math.min(after, this.#share) - Math.min(before, this.#share);
  }

  #hold(size: number, response: ServerResponse): void {
    const tenantId = this.#tenants.get(response);
    this.#count(tenantId, size);
    const before = this.#sizes.get(response);
    this.#sizes.set(response, (before ?? 0) + size);
    if (before !== undefined) return;
    // After `finish`, and after a connection that broke.
    response.once('close', () => {
      this.#count(tenantId, -(this.#sizes.get(response) ?? 0));
      this.#sizes.delete(response);
    });
  }
}

/** One for the process: memory is. */
export const inFlight = new InFlightBytes();
