import { dataMissesPerMinuteSetting, defaultDataMissesPerMinute, isCount } from '@token-vault/contracts';
import type { RequestContext } from '@token-vault/operations';
import { RateLimitedError } from './http/rate-limits.ts';

/** Tries that have been counted as misses. */
export interface CountedTries {
  /** So many have found something, and were no misses. */
  found(tries: number): void;
}

/**
 * Bounds how fast an application can guess data: a search term over data, or a deduplicated create, that finds nothing is a miss
 * (rules.md §6).
 */
export interface MissLimit {
  /**
   * Counts tries before they are made, so that those at the same time count too. When the minute has room for one it has room for all
   * of a request: a limit below the terms of one search would otherwise forbid it for ever. @throws RateLimitedError
   */
  count(context: RequestContext, tries: number): CountedTries;
}

const windowMs = 60_000;

interface Window {
  misses: number;
  readonly endsAtMs: number;
}

/** Of one process: each replica counts by itself. Holds at most `maxEntries` applications; the oldest window goes first. */
export function createMissLimit(maxEntries = 20_000): MissLimit {
  const windows = new Map<string, Window>();

  function windowOf(applicationId: string, nowMs: number): Window {
    const present = windows.get(applicationId);
    if (present && nowMs < present.endsAtMs) return present;
    // Deleted first, so that the map stays in the order in which its windows end.
    windows.delete(applicationId);
    const [oldest] = windows.keys();
    if (oldest !== undefined && windows.size >= maxEntries) windows.delete(oldest);
    const window = { misses: 0, endsAtMs: nowMs + windowMs };
    windows.set(applicationId, window);
    return window;
  }

  return {
    count({ principal, now }, tries) {
      const limit = limitOf(principal.tenant.settings);
      if (limit === 0 || principal.actor.kind === 'system') return { found: () => undefined };
      const window = windowOf(principal.applicationId, now.getTime());
      if (window.misses >= limit) {
        const seconds = Math.max(1, Math.ceil((window.endsAtMs - now.getTime()) / 1000));
        throw new RateLimitedError(
          'Too many searches of data, or deduplications, that found nothing.',
          seconds,
        );
      }
      window.misses += tries;
      return {
        found(found) {
          window.misses -= found;
        },
      };
    },
  };
}

/** Validated when it is set; a tenant of a former release may have anything there. */
function limitOf(settings: Readonly<Record<string, string>>): number {
  const given = settings[dataMissesPerMinuteSetting];
  return given !== undefined && isCount(given) ? Number(given) : defaultDataMissesPerMinute;
}
