import { FairPlaces } from '@token-vault/batching';
import { DomainError, UnavailableError } from '@token-vault/contracts';
import { hashApiKey } from '@token-vault/crypto';
import type { Response } from 'express';
import { RequestAbortedError } from './request-life.ts';
import { HeldRefusals, type Leaving, type Pause } from './held-refusals.ts';

/** 429, with the time after which the client may try again. */
export class RateLimitedError extends DomainError {
  readonly retryAfterSeconds: number;
  /** Whether the answer ends the connection, so that the next request costs the client a new one. */
  readonly endsConnection: boolean;
  constructor(detail: string, retryAfterSeconds: number, endsConnection = false) {
    super('rate_limited', detail);
    this.retryAfterSeconds = retryAfterSeconds;
    this.endsConnection = endsConnection;
  }
}

/** The evidence that a request gives of its caller. Nothing is looked up when it shows neither. */
interface ShownCredential {
  readonly key?: string | undefined;
  /** The proxy that the request names, where its callers are looked up, with a key of the proxy or without one. */
  readonly proxyId?: string | undefined;
}

export interface RateLimitOptions {
  /** Requests a minute of one application or session; 0 for no limit. */
  readonly requestsPerMinute?: number;
  /** Failed authentications in a minute from one address; more get 429. 0 for no limit. */
  readonly failuresPerMinute?: number;
  /** Monotonic milliseconds. */
  readonly nowMs?: () => number;
  readonly pause?: Pause;
  /** Maximum number of callers, addresses and keys in memory. */
  readonly maxEntries?: number;
}

export interface RateLimits {
  /**
   * Looks the caller up by `find`, and counts a failure for its address. A valid request never gets 429 because of other requests
   * from its address. Few callers that the process does not know are looked up at once; addresses take turns.
   * @param client - the response; a look-up that waits ends when it is closed
   * @throws RateLimitedError instead of returning a failure, when its address has too many; without a key after a second, or at once with the
   * end of the connection. UnavailableError when thousands of its address wait
   */
  look<Found extends { readonly kind: string }>(
    address: string | undefined,
    shown: ShownCredential,
    find: () => Promise<Found | undefined>,
    client?: Leaving,
  ): Promise<Found | undefined>;
  /** Counts a request of an authenticated caller and sets the headers of the answer. @throws RateLimitedError */
  passed(callerId: string, response: Response): void;
}

/** Far more than one process can answer to one caller: this protects against accidents; it is not a price list. */
export const defaultRequestsPerMinute = 600_000;
export const defaultFailuresPerMinute = 600;

const windowMs = 60_000;

interface Window {
  count: number;
  readonly endsAtMs: number;
}

/** Counts by key in windows of a minute. Holds at most `maxEntries` keys; the oldest window is dropped first. */
class WindowCounter {
  readonly #windows = new Map<string, Window>();
  readonly #maxEntries: number;

  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
  }

  get(key: string, nowMs: number): Window | undefined {
    const window = this.#windows.get(key);
    return window && nowMs < window.endsAtMs ? window : undefined;
  }

  add(key: string, nowMs: number): Window {
    const present = this.get(key, nowMs);
    if (present) {
      present.count += 1;
      return present;
    }
    // Deleted first, so that the map stays in the order in which the windows end.
    this.#windows.delete(key);
    if (this.#windows.size >= this.#maxEntries) this.#dropOldest();
    const window = { count: 1, endsAtMs: nowMs + windowMs };
    this.#windows.set(key, window);
    return window;
  }

  #dropOldest(): void {
    for (const key of this.#windows.keys()) {
      this.#windows.delete(key);
      return;
    }
  }
}

/** One customer usually has a /64 of IPv6, so its addresses count as one. */
export function addressGroup(address: string | undefined): string {
  if (address === undefined) return 'unknown';
  if (address.startsWith('::ffff:')) return address.slice('::ffff:'.length);
  if (!address.includes(':')) return address;
  const [head = '', tail] = address.split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - left.length - right.length);
  const groups = [...left, ...Array.from({ length: zeros }, () => '0'), ...right];
  return groups.slice(0, 4).join(':');
}

const secondsUntil = (window: Window, nowMs: number): number =>
  Math.max(1, Math.ceil((window.endsAtMs - nowMs) / 1000));

/**
 * The number of look-ups at once of callers that the process does not know. Each uses one connection of a pool of six at a time, so that a flood
 * of bad keys, or of requests to proxies without one, leaves connections to other requests.
 */
const lookUpsAtOnce = 4;
/** While other addresses look callers up, so that slow look-ups of one address do not stop theirs. */
const lookUpsBesideOthers = 3;
/** A waiting look-up keeps the connection to its client open. These limits bound the memory, and are reached only in a flood of requests. */
const waitingOfAddress = 10_000;
const maxWaiting = 40_000;

const tooManyLookUps = () =>
  new UnavailableError('Too many API keys wait to be looked up. Nothing was done; try again.');

/** Look-ups of callers that the process does not know. Addresses take turns. */
class LookUps {
  readonly #places: FairPlaces;

  constructor() {
    this.#places = new FairPlaces({
      places: lookUpsAtOnce,
      placesOf: (group) => (this.#places.wantedByOthers(group) > 0 ? lookUpsBesideOthers : lookUpsAtOnce),
      waitingOfTenant: waitingOfAddress,
      maxWaiting,
      refuse: tooManyLookUps,
    });
  }

  /** @throws UnavailableError when too many wait, RequestAbortedError when the client goes away first */
  async run<Result>(group: string, work: () => Promise<Result>, client?: Leaving): Promise<Result> {
    const waiting = this.#places.enter(group);
    if (waiting) {
      const giveUp = () => waiting.giveUp(new RequestAbortedError('the client disconnected'));
      client?.once('close', giveUp);
      await waiting.begun.finally(() => client?.off('close', giveUp));
    }
    try {
      return await work();
    } finally {
      this.#places.leave(group);
    }
  }
}

/**
 * The name by which a good caller is known. A key that is good for one proxy is looked up like an unknown one for another proxy. Undefined when
 * nothing is looked up.
 */
function nameOf({ key, proxyId }: ShownCredential): string | undefined {
  const hash = key === undefined ? undefined : hashApiKey(key);
  return proxyId === undefined ? hash : `${proxyId} ${hash ?? ''}`;
}

/** The callers that were found last, by name. Holds at most `maxEntries`; the one that was used longest ago is dropped first. */
class LatestCallers {
  readonly #names = new Set<string>();
  readonly #maxEntries: number;

  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
  }

  has(name: string): boolean {
    return this.#names.has(name);
  }

  add(name: string): void {
    this.#names.delete(name);
    const [oldest] = this.#names;
    if (oldest !== undefined && this.#names.size >= this.#maxEntries) this.#names.delete(oldest);
    this.#names.add(name);
  }

  delete(name: string): void {
    this.#names.delete(name);
  }
}

const tooManyFailures = 'Too many failed authentications from this address.';

/**
 * Limits of this process, by caller and by address (rules.md §1: 429 with `Retry-After` and the RateLimit headers of the IETF draft). Each
 * replica counts by itself: the limits bound the work of one process for one address. This is our own code, because the libraries keep an
 * entry for every address that calls within a window, so an attacker decides their number.
 */
export function createRateLimits(options: RateLimitOptions = {}): RateLimits {
  const {
    requestsPerMinute = defaultRequestsPerMinute,
    failuresPerMinute = defaultFailuresPerMinute,
    nowMs = () => performance.now(),
    maxEntries = 20_000,
    pause,
  } = options;
  const requests = new WindowCounter(maxEntries);
  const failures = new WindowCounter(maxEntries);
  const good = new LatestCallers(maxEntries);
  const lookUps = new LookUps();
  const refusals = new HeldRefusals(pause);
  const policy = `"caller";q=${requestsPerMinute};w=${windowMs / 1000}`;

  return {
    async look(address, shown, find, client) {
      const group = addressGroup(address);
      const name = nameOf(shown);
      const isFree = name === undefined || good.has(name);
      const found = isFree ? await find() : await lookUps.run(group, find, client);
      if (found?.kind === 'authenticated') {
        if (name !== undefined) good.add(name);
        return found;
      }
      if (name !== undefined) good.delete(name);
      if (failuresPerMinute === 0) return found;
      // Counted before it is compared, so that failures of look-ups at the same time cannot pass together.
      const window = failures.add(group, nowMs());
      if (window.count <= failuresPerMinute) return found;
      const mayGoOn = shown.key !== undefined || (await refusals.hold(group, client));
      throw new RateLimitedError(tooManyFailures, secondsUntil(window, nowMs()), !mayGoOn);
    },

    passed(callerId, response) {
      if (requestsPerMinute === 0) return;
      const now = nowMs();
      const window = requests.add(callerId, now);
      const remaining = Math.max(0, requestsPerMinute - window.count);
      const seconds = secondsUntil(window, now);
      response.setHeader('RateLimit-Policy', policy);
      response.setHeader('RateLimit', `"caller";r=${remaining};t=${seconds}`);
      if (window.count > requestsPerMinute)
        throw new RateLimitedError('Too many requests of this caller.', seconds);
    },
  };
}
