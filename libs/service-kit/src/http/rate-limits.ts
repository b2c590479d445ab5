import { DomainError } from '@token-vault/contracts';
import { hashApiKey } from '@token-vault/crypto';
import type { Response } from 'express';

/** 429, with the time after which trying again is right. */
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
  /** Failed authentications a minute from one address, above which the next are 429; 0 for no limit. */
  readonly failuresPerMinute?: number;
  /** Monotonic milliseconds. */
  readonly nowMs?: () => number;
  /** Most callers, addresses and keys remembered at once. */
  readonly maxEntries?: number;
}

export interface RateLimits {
  /**
   * Looks a key up by `find`, and counts a failure for its address. A good key is never refused, whatever else comes from its address.
   * @throws RateLimitedError instead of giving a failure, when its address has too many
   */
  look<Found extends { readonly kind: string }>(
    address: string | undefined,
    apiKey: string | undefined,
    find: () => Promise<Found | undefined>,
  ): Promise<Found | undefined>;
  /** Counts a request of a known caller and says so in the answer's headers. @throws RateLimitedError */
  passed(caller: { readonly id: string; readonly keyHash: string }, response: Response): void;
}

/** Far above what one process answers to one caller: a limit against accidents, not a price list. */
export const defaultRequestsPerMinute = 600_000;
export const defaultFailuresPerMinute = 600;

const windowMs = 60_000;

interface Window {
  count: number;
  readonly endsAtMs: number;
}

/** Counts by key in windows of a minute. Holds at most `maxEntries`; the oldest window goes first. */
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
    // Deleted first, so that the map stays in the order in which its windows end.
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

/** One customer usually holds a /64 of IPv6, so its addresses count as one. */
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

/** Look-ups for addresses with too many failures share so many places, so that a flood of bad keys does not fill the database. */
const guardedLookUps = 4;
const maxWaiting = 1_000;

/** Runs few things at once and lets a bounded number wait. */
class Guard {
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  /** @throws RateLimitedError when too many wait */
  async run<Result>(work: () => Promise<Result>): Promise<Result> {
    if (this.#running < guardedLookUps) this.#running += 1;
    else await this.#turn();
    try {
      return await work();
    } finally {
      // A place is handed on, so that it is never free and taken twice.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running -= 1;
    }
  }

  #turn(): Promise<void> {
    if (this.#waiting.length >= maxWaiting) throw new RateLimitedError(tooManyFailures, 1);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}

const tooManyFailures = 'Too many failed authentications from this address.';

/**
 * Limits of this process, by caller and by address (rules.md §1: 429 with `Retry-After` and the RateLimit headers of the
 * IETF draft). Each replica counts for itself: the limits bound what one process does for one address. Of its own, because the libraries
 * keep an entry for every address that ever calls within a window, as many as an attacker likes.
 */
export function createRateLimits(options: RateLimitOptions = {}): RateLimits {
  const {
    requestsPerMinute = defaultRequestsPerMinute,
    failuresPerMinute = defaultFailuresPerMinute,
    nowMs = () => performance.now(),
    maxEntries = 20_000,
  } = options;
  const requests = new WindowCounter(maxEntries);
  const failures = new WindowCounter(maxEntries);
  const goodKeys = new Set<string>();
  const guard = new Guard();
  const policy = `"caller";q=${requestsPerMinute};w=${windowMs / 1000}`;

  return {
    async look(address, apiKey, find) {
      if (failuresPerMinute === 0) return find();
      const group = addressGroup(address);
      const before = failures.get(group, nowMs());
      const isThrottled = before !== undefined && before.count >= failuresPerMinute;
      const isGuarded = isThrottled && apiKey !== undefined && !goodKeys.has(hashApiKey(apiKey));
      const found = isGuarded ? await guard.run(find) : await find();
      if (found?.kind === 'authenticated') return found;
      const window = failures.add(group, nowMs());
      if (apiKey !== undefined) goodKeys.delete(hashApiKey(apiKey));
      if (isThrottled) throw new RateLimitedError(tooManyFailures, secondsUntil(window, nowMs()));
      return found;
    },

    passed({ id, keyHash }, response) {
      if (!goodKeys.has(keyHash)) {
        if (goodKeys.size >= maxEntries) goodKeys.clear();
        goodKeys.add(keyHash);
      }
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
