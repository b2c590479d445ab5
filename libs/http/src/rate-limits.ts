import { FairPlaces } from '@token-vault/batching';
import { DomainError, UnavailableError } from '@token-vault/contracts';
import { hashApiKey } from '@token-vault/crypto';
import type { Response } from 'express';
import { RequestAbortedError } from './body.ts';
import { HeldRefusals, type Leaving, type Pause } from './held-refusals.ts';

/** 429, with the time after which the client may try again. */
export class RateLimitedError extends DomainError {
  readonly retryAfterSeconds: number;
  constructor(detail: string, retryAfterSeconds: number) {
    super('rate_limited', detail);
    this.retryAfterSeconds = retryAfterSeconds;
  }
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
   * Looks a key up by `find`, and counts a failure for its address. A request with a valid key never gets 429 because of other requests
   * from its address. Few keys that the process does not know are looked up at once; addresses take turns.
   * @param client - the response; a look-up that waits ends when it is closed
   * @throws RateLimitedError instead of returning a failure, when its address has too many; without a key after a second. UnavailableError
   * when thousands of its address wait
   */
  look<Found extends { readonly kind: string }>(
    address: string | undefined,
    apiKey: string | undefined,
    find: () => Promise<Found | undefined>,
    client?: Leaving,
  ): Promise<Found | undefined>;
  /** Counts a request of an authenticated caller and sets the headers of the answer. @throws RateLimitedError */
  passed(caller: { readonly id: string; readonly keyHash: string }, response: Response): void;
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
 * The number of look-ups at once of keys that the process does not know. Each uses one connection of a pool of six at a time, so that a flood
 * of bad keys leaves connections to other requests.
 */
const lookUpsAtOnce = 4;
/** While other addresses look keys up, so that slow look-ups of one address do not stop theirs. */
const lookUpsBesideOthers = 3;
/** A waiting look-up keeps the connection to its client open. These limits bound the memory, and are reached only in a flood of requests. */
const waitingOfAddress = 10_000;
const maxWaiting = 40_000;

const tooManyLookUps = () =>
  new UnavailableError('Too many API keys wait to be looked up. Nothing was done; try again.');

/** Look-ups of keys that the process does not know. Addresses take turns. */
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

/** The keys that were used last. Holds at most `maxEntries`; the one that was used longest ago is dropped first. */
class LatestKeys {
  readonly #hashes = new Set<string>();
  readonly #maxEntries: number;

  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
  }

  has(hash: string): boolean {
    return this.#hashes.has(hash);
  }

  add(hash: string): void {
    this.#hashes.delete(hash);
    const [oldest] = this.#hashes;
    if (oldest !== undefined && this.#hashes.size >= this.#maxEntries) this.#hashes.delete(oldest);
    this.#hashes.add(hash);
  }

  delete(hash: string): void {
    this.#hashes.delete(hash);
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
  const goodKeys = new LatestKeys(maxEntries);
  const lookUps = new LookUps();
  const refusals = new HeldRefusals(pause);
  const policy = `"caller";q=${requestsPerMinute};w=${windowMs / 1000}`;

  return {
    async look(address, apiKey, find, client) {
      const group = addressGroup(address);
      const hash = apiKey === undefined ? undefined : hashApiKey(apiKey);
      // Without a key nothing is looked up.
      const isFree = hash === undefined || goodKeys.has(hash);
      const found = isFree ? await find() : await lookUps.run(group, find, client);
      if (found?.kind === 'authenticated') return found;
      if (hash !== undefined) goodKeys.delete(hash);
      if (failuresPerMinute === 0) return found;
      // Counted before it is compared, so that failures of look-ups at the same time cannot pass together.
      const window = failures.add(group, nowMs());
      if (window.count <= failuresPerMinute) return found;
      if (hash === undefined) await refusals.hold(client);
      throw new RateLimitedError(tooManyFailures, secondsUntil(window, nowMs()));
    },

    passed({ id, keyHash }, response) {
      goodKeys.add(keyHash);
      if (requestsPerMinute === 0) return;
      const now = nowMs();
      const window = requests.add(id, now);
      const remaining = Math.max(0, requestsPerMinute - window.count);
      const seconds = secondsUntil(window, now);
      response.setHeader('RateLimit-Policy', policy);
      response.setHeader('RateLimit', `"caller";r=${remaining};t=${seconds}`);
      if (window.count > requestsPerMinute)
        throw new RateLimitedError('Too many requests of this caller.', seconds);
    },
  };
}
