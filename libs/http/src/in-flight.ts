import { TenantShares, type Holder } from '@token-vault/batching';
import { UnavailableError } from '@token-vault/contracts';
import type { ServerResponse } from 'node:http';
import { cutOffStalledReader } from './stalled-reader.ts';

/** Bodies of this size and more are counted. The number of connections limits the memory of smaller ones. */
const countedBytes = 16 * 1024;
/** Maximum bytes of bodies and answers that one process holds for its clients. A container of the examples has 512 MiB or more. */
const defaultLimitBytes = 128 * 1024 * 1024;

export const tooMuchAtOnce = () =>
  new UnavailableError('The vault is receiving too much at once. Nothing was done; try again.');

/**
 * Limits the memory that clients can fill with bodies that they send and answers that they do not read. The largest body limits a single
 * connection, but not hundreds of them together. One tenant has at most half, so that bodies of other tenants always find room, and one application at
 * most half of what the others of its tenant leave.
 */
export class InFlightBytes {
  readonly #limit: number;
  readonly #stalledReaderMs: number | undefined;
  readonly #shares: TenantShares;
  #held = 0;
  readonly #sizes = new WeakMap<ServerResponse, number>();
  readonly #holders = new WeakMap<ServerResponse, Holder>();

  constructor(limit = defaultLimitBytes, stalledReaderMs?: number) {
    this.#limit = limit;
    this.#shares = new TenantShares(limit / 2);
    this.#stalledReaderMs = stalledReaderMs;
  }

  get held(): number {
    return this.#held;
  }

  /** Counts the bytes of this answer for the application from now on. */
  assign(response: ServerResponse, holder: Holder): void {
    if (!this.#holders.has(response)) this.#holders.set(response, holder);
  }

  /**
   * Called whenever a request begins after a wait: many requests may wait together, before any of them has an answer.
   * @throws UnavailableError when the application holds more than it may, because it does not read its answers
   */
  requireRead(holder: Holder): void {
    if (this.#shares.exceeds(holder)) throw tooMuchAtOnce();
  }

  /** Counts a part of a request body until the answer is done. False when the process, the tenant or the application has reached its limit. */
  admits(size: number, response: ServerResponse): boolean {
    const holder = this.#holders.get(response);
    if (holder && !this.#shares.allows(holder, size)) return false;
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

  /** Answers may exceed the share of their application. The excess must not prevent the bodies of others, so it does not count (TenantShares). */
  #count(holder: Holder | undefined, size: number): void {
    if (holder === undefined) {
      this.#held += size;
      return;
    }
    const before = this.#shares.heldBy(holder.tenantId);
    this.#shares.take(holder, size);
    this.#held += this.#shares.heldBy(holder.tenantId) - before;
  }

  #hold(size: number, response: ServerResponse): void {
    const holder = this.#holders.get(response);
    this.#count(holder, size);
    const before = this.#sizes.get(response);
    this.#sizes.set(response, (before ?? 0) + size);
    if (before !== undefined) return;
    // `close` comes after `finish`, and after a broken connection.
    response.once('close', () => {
      this.#count(holder, -(this.#sizes.get(response) ?? 0));
      this.#sizes.delete(response);
    });
  }
}

/** One instance for the process, because memory is shared. */
export const inFlight = new InFlightBytes();
