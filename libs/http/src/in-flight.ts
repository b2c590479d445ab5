import type { ServerResponse } from 'node:http';
import { cutOffStalledReader } from './stalled-reader.ts';

/** Bodies of this size and more are counted. The number of connections limits the memory of smaller ones. */
const countedBytes = 16 * 1024;
/** Maximum bytes of bodies and answers that one process holds for its clients. A container of the examples has 512 MiB or more. */
const defaultLimitBytes = 128 * 1024 * 1024;

/**
 * Limits the memory that clients can fill with bodies that they send and answers that they do not read. The largest body limits a single
 * connection, but not hundreds of them together. One tenant has at most half, so that bodies of other tenants always find room.
 */
export class InFlightBytes {
  readonly #limit: number;
  readonly #share: number;
  readonly #stalledReaderMs: number | undefined;
  readonly #heldBy = new Map<string, number>();
  #held = 0;
  readonly #sizes = new WeakMap<ServerResponse, number>();
  readonly #tenants = new WeakMap<ServerResponse, string>();

  constructor(limit = defaultLimitBytes, stalledReaderMs?: number) {
    this.#limit = limit;
    this.#share = limit / 2;
    this.#stalledReaderMs = stalledReaderMs;
  }

  get held(): number {
    return this.#held;
  }

  /** Counts the bytes of this answer for the tenant from now on. False when the tenant has reached its limit. */
  assign(response: ServerResponse, tenantId: string): boolean {
    if (!this.#tenants.has(response)) this.#tenants.set(response, tenantId);
    return this.#heldOf(tenantId) < this.#share;
  }

  /** Counts a part of a request body until the answer is done. False when the process or the tenant has reached its limit. */
  admits(size: number, response: ServerResponse): boolean {
    const tenantId = this.#tenants.get(response);
    if (tenantId !== undefined && this.#heldOf(tenantId) + size > this.#share) return false;
    if (this.#held + size > this.#limit) return false;
    this.#hold(size, response);
    return true;
  }

  /** Counts an answer until it is sent. It was decided and recorded, so it is never refused; it only prevents later bodies. */
  send(response: ServerResponse, bytes: Buffer): void {
    if (bytes.length >= countedBytes) this.#hold(bytes.length, response);
    response.end(bytes);
    // The kernel has taken small answers by now.
    if (response.writableLength > 0) cutOffStalledReader(response, this.#stalledReaderMs);
  }

  #heldOf(tenantId: string): number {
    return this.#heldBy.get(tenantId) ?? 0;
  }

  /** Answers may exceed the share of their tenant. The excess must not prevent the bodies of other tenants. */
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
    // `close` comes after `finish`, and after a broken connection.
    response.once('close', () => {
      this.#count(tenantId, -(this.#sizes.get(response) ?? 0));
      this.#sizes.delete(response);
    });
  }
}

/** One instance for the process, because memory is shared. */
export const inFlight = new InFlightBytes();
