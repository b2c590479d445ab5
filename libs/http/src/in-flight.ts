import { TenantShares, type Holder } from '@token-vault/batching';
import { UnavailableError } from '@token-vault/contracts';
import type { ServerResponse } from 'node:http';
import { onceOver } from './request-life.ts';
import { cutOffStalledReader } from './stalled-reader.ts';

/** Smaller bodies have room of their own, so that they pass while large ones are refused. Smaller answers are not counted. */
const largeBytes = 16 * 1024;
/** Maximum bytes of large bodies and answers that one process holds for its clients. A container of the examples has 512 MiB or more. */
const defaultLimitBytes = 128 * 1024 * 1024;
/** The room for small bodies, as a part of the other one. */
const partOfSmall = 1 / 4;

export const tooMuchAtOnce = () =>
  new UnavailableError('The vault is receiving too much at once. Nothing was done; try again.');

/** The tenant as a holder of a part of the process. */
const inProcess = ({ tenantId }: Holder): Holder => ({ tenantId: '', applicationId: tenantId });
/** Requests whose caller is not known share one part. */
const unknown: Holder = { tenantId: '', applicationId: '' };

/**
 * Bytes that tenants divide, and each tenant's part its applications. A tenant may hold half of what the others leave, and at most half of all; so may an
 * application of its tenant's half. So neither stops the others.
 */
class Room {
  readonly #tenants: TenantShares;
  readonly #applications: TenantShares;

  constructor(limit: number) {
    this.#tenants = new TenantShares(limit);
    this.#applications = new TenantShares(limit / 2);
  }

  get held(): number {
    return this.#tenants.heldBy('');
  }

  allows(holder: Holder, size: number): boolean {
    return this.#applications.allows(holder, size) && this.#tenants.allows(inProcess(holder), size);
  }

  exceeds(holder: Holder): boolean {
    return this.#applications.exceeds(holder);
  }

  /** Answers may exceed the part of their application. The excess must not prevent the bodies of others, so it does not count (TenantShares). */
  take(holder: Holder, size: number): void {
    const before = this.#applications.heldBy(holder.tenantId);
    this.#applications.take(holder, size);
    this.#tenants.take(inProcess(holder), this.#applications.heldBy(holder.tenantId) - before);
  }
}

/** The bytes that an answer and the body of its request hold. */
interface Held {
  readonly holder: Holder;
  /** Of the body so far. */
  body: number;
  large: number;
  small: number;
}

/**
 * Limits the memory that clients can fill with bodies that they send and answers that they do not read. The largest body limits a single
 * connection, but not hundreds of them together.
 */
export class InFlightBytes {
  readonly #stalledReaderMs: number | undefined;
  readonly #large: Room;
  readonly #small: Room;
  readonly #held = new WeakMap<ServerResponse, Held>();
  readonly #holders = new WeakMap<ServerResponse, Holder>();

  constructor(limit = defaultLimitBytes, stalledReaderMs?: number) {
    this.#large = new Room(limit);
    this.#small = new Room(limit * partOfSmall);
    this.#stalledReaderMs = stalledReaderMs;
  }

  get held(): number {
    return this.#large.held + this.#small.held;
  }

  /** Counts the bytes of this answer for the holder from now on. */
  assign(response: ServerResponse, holder: Holder): void {
    if (!this.#holders.has(response)) this.#holders.set(response, holder);
  }

  /**
   * Called whenever a request begins after a wait: many requests may wait together, before any of them has an answer.
   * @throws UnavailableError when the application holds more than it may, because it does not read its answers
   */
  requireRead(holder: Holder): void {
    if (this.#large.exceeds(holder)) throw tooMuchAtOnce();
  }

  /** Counts a part of a request body until the request is over (`onceOver`). False when the process, the tenant or the application has reached its limit. */
  admits(size: number, response: ServerResponse): boolean {
    const held = this.#heldBy(response);
    held.body += size;
    const isLarge = held.body >= largeBytes;
    const added = isLarge ? size + held.small : size;
    if (!(isLarge ? this.#large : this.#small).allows(held.holder, added)) return false;
    this.#change(held, isLarge ? { large: added, small: -held.small } : { large: 0, small: size });
    return true;
  }

  /** Counts an answer until it is sent. It was decided and recorded, so it is never refused; it only prevents later bodies. */
  send(response: ServerResponse, bytes: Buffer): void {
    if (bytes.length >= largeBytes) this.#change(this.#heldBy(response), { large: bytes.length, small: 0 });
    response.end(bytes);
    // The kernel has taken small answers by now.
    if (response.writableLength > 0) cutOffStalledReader(response, this.#stalledReaderMs);
  }

  #heldBy(response: ServerResponse): Held {
    const before = this.#held.get(response);
    if (before) return before;
    const held = { holder: this.#holders.get(response) ?? unknown, body: 0, large: 0, small: 0 };
    this.#held.set(response, held);
    // The work for a client that has gone may hold the body still, and wait for its turn.
    onceOver(response, () => this.#change(held, { large: -held.large, small: -held.small }));
    return held;
  }

  #change(held: Held, { large, small }: Pick<Held, 'large' | 'small'>): void {
    if (large !== 0) this.#large.take(held.holder, large);
    if (small !== 0) this.#small.take(held.holder, small);
    held.large += large;
    held.small += small;
  }
}

/** One instance for the process, because memory is shared. */
export const inFlight = new InFlightBytes();
