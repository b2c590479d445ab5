import { dataMissesPerMinuteSetting, defaultDataMissesPerMinute, isCount } from '@token-vault/contracts';
import type { RequestContext } from '@token-vault/operations';
import { RateLimitedError } from './rate-limits.ts';

/** Tries that were counted as misses. */
export interface CountedTries {
  /** This number of tries found a value, so they were no misses. */
  found(tries: number): void;
}

/**
 * Limits how fast an application can guess data. A miss is a search term over data that matches no token of the search, a deduplicated
 * create that finds no token (rules.md §6), or an expression that gives no value over data that the application may use and not see.
 */
export interface MissLimit {
  /**
   * Counts tries before they are made, so that concurrent tries count too. If the minute has room for one try, it has room for all tries of
   * the request: otherwise a limit below the number of terms of one search would forbid that search for ever. @throws RateLimitedError
   */
  count(context: RequestContext, tries: number): CountedTries;
  /**
   * Runs an evaluation of expressions over data that the caller may use and not see; its errors of `isMiss` are misses. The limit is
   * checked before and after. So concurrent evaluations show no more errors than the minute has room for, and no value after that.
   * Evaluations that give a value are never counted. @throws RateLimitedError
   */
  guess<Result>(
    context: RequestContext,
    isMiss: (error: unknown) => boolean,
    work: () => Promise<Result>,
  ): Promise<Result>;
}

const windowMs = 60_000;

interface Window {
  misses: number;
  readonly endsAtMs: number;
}

/** The limit of one process; each replica counts by itself. Holds at most `maxEntries` applications; the oldest window is dropped first. */
export function createMissLimit(maxEntries = 20_000): MissLimit {
  const windows = new Map<string, Window>();

  function windowOf(applicationId: string, nowMs: number): Window {
    const present = windows.get(applicationId);
    if (present && nowMs < present.endsAtMs) return present;
    // Deleted first, so that the map stays in the order in which the windows end.
    windows.delete(applicationId);
    const [oldest] = windows.keys();
    if (oldest !== undefined && windows.size >= maxEntries) windows.delete(oldest);
    const window = { misses: 0, endsAtMs: nowMs + windowMs };
    windows.set(applicationId, window);
    return window;
  }

  /** Undefined for a caller without a limit. @throws RateLimitedError */
  function windowWithRoom({ principal, now }: RequestContext): Window | undefined {
    const limit = limitOf(principal.tenant.settings);
    if (limit === 0 || principal.actor.kind === 'system') return undefined;
    const window = windowOf(principal.applicationId, now.getTime());
    if (window.misses < limit) return window;
    const seconds = Math.max(1, Math.ceil((window.endsAtMs - now.getTime()) / 1000));
    throw new RateLimitedError(
      'Too many searches of data, deduplications or expressions that found nothing.',
      seconds,
    );
  }

  return {
    count(context, tries) {
      const window = windowWithRoom(context);
      if (window) window.misses += tries;
      return {
        found(found) {
          if (window) window.misses -= found;
        },
      };
    },

    async guess(context, isMiss, work) {
      windowWithRoom(context);
      const result = await work().catch((error: unknown) => {
        const window = isMiss(error) ? windowWithRoom(context) : undefined;
        if (window) window.misses += 1;
        throw error;
      });
      windowWithRoom(context);
      return result;
    },
  };
}

/** The setting is validated when it is set, but a tenant of an earlier release may have any text. */
function limitOf(settings: Readonly<Record<string, string>>): number {
  const given = settings[dataMissesPerMinuteSetting];
  return given !== undefined && isCount(given) ? Number(given) : defaultDataMissesPerMinute;
}
