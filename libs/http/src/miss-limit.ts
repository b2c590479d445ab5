import { seesEverything } from '@token-vault/access';
import {
  countDataHitsSetting,
  dataMissesPerMinuteSetting,
  defaultDataMissesPerMinute,
  ExpressionsBusyError,
  isCount,
} from '@token-vault/contracts';
import type { RequestContext } from '@token-vault/operations';
import { createProcessCounter, windowMs, type MissCounter } from './miss-counter.ts';
import { RateLimitedError } from './rate-limits.ts';

/** Tries that were counted as misses. */
export interface CountedTries {
  /** This number of tries found a value, so they were no misses. They stay counted where hits count. */
  found(tries: number): Promise<void>;
}

/**
 * Limits how fast an application can guess data. A miss is a search term over data that matches no token of the search, a deduplicated
 * create that finds no token (rules.md §6), or an expression that gives no value over data that the application may use and not see.
 */
export interface MissLimit {
  /** Whether tries that find something are counted too (`count_data_hits`). Then a search for a fingerprint is a try. */
  countsHits(context: RequestContext): boolean;
  /**
   * Counts tries before they are made, so that concurrent tries count too. If the minute has room for one try, it has room for all tries of
   * the request: otherwise a limit below the number of terms of one search would forbid that search for ever. @throws RateLimitedError
   */
  count(context: RequestContext, tries: number): Promise<CountedTries>;
  /**
   * Runs an evaluation of expressions over data that the caller may use and not see. Its errors of `isMiss` are misses, and so is `ExpressionsBusyError`. The limit is
   * checked before and after. So concurrent evaluations show no more errors than the minute has room for, and no value after that.
   * Evaluations that give a value are never counted. @throws RateLimitedError
   */
  guess<Result>(
    context: RequestContext,
    isMiss: (error: unknown) => boolean,
    work: () => Promise<Result>,
  ): Promise<Result>;
}

export interface MissLimitOptions {
  /** The counter that all processes share. When absent, the limit is of this process alone. */
  readonly counter?: MissCounter;
  /** Monotonic milliseconds. */
  readonly nowMs?: () => number;
  /** Maximum number of applications in memory. */
  readonly maxEntries?: number;
}

/** Places of a window that this process has taken from the counter and not used. */
interface Held {
  readonly window: string;
  readonly limit: number;
  readonly endsAtMs: number;
  readonly keeps: number;
  places: number;
}

/** The tries of this process in a minute of its own clock: who can write the database can take the rows of the counter away. */
class OwnMinute {
  readonly #nowMs: () => number;
  #endsAtMs = -Infinity;
  #tries = 0;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Counts the tries, if there is room for one. Gives what uncounts tries. @throws RateLimitedError */
  count(tries: number, limit: number): (tries: number) => void {
    const now = this.#nowMs();
    if (now >= this.#endsAtMs) [this.#endsAtMs, this.#tries] = [now + windowMs, 0];
    const endsAtMs = this.#endsAtMs;
    if (this.#tries >= limit) throw tooManyMisses(endsAtMs - now);
    this.#tries += tries;
    return (uncounted) => {
      if (endsAtMs === this.#endsAtMs) this.#tries -= uncounted;
    };
  }
}

const nothing: Held = { window: '', limit: 0, endsAtMs: -Infinity, keeps: 0, places: 0 };

/** The places of one application in this process. The counter decides, up to the limit of the process: a lost place stays counted until its window ends. */
class Places {
  readonly #applicationId: string;
  readonly #counter: MissCounter;
  readonly #nowMs: () => number;
  readonly #own: OwnMinute;
  #held = nothing;
  #taking: Promise<void> | undefined;
  #giving: Promise<void> | undefined;

  constructor(applicationId: string, counter: MissCounter, nowMs: () => number) {
    this.#applicationId = applicationId;
    this.#counter = counter;
    this.#nowMs = nowMs;
    this.#own = new OwnMinute(nowMs);
  }

  /** Uses as many places of a window, and gives what takes places back. Without tries it only requires that there is a place. @throws RateLimitedError */
  async use(tries: number, limit: number): Promise<(places: number) => Promise<void>> {
    const uncount = this.#own.count(tries, limit);
    try {
      const window = await this.#useShared(tries, limit);
      return (places) => {
        uncount(places);
        return this.#unuse(places, window);
      };
    } catch (error) {
      uncount(tries);
      throw error;
    }
  }

  async #useShared(tries: number, limit: number): Promise<string> {
    const needed = Math.max(1, tries);
    if (this.#held.limit !== limit || this.#isOver) await this.#take(needed, limit);
    while (this.#held.places < needed) await this.#take(needed, limit);
    this.#held.places -= tries;
    return this.#held.window;
  }

  async #unuse(places: number, window: string): Promise<void> {
    if (window === this.#held.window) this.#held.places += places;
    await this.giveBack(this.#held.keeps);
  }

  /** Gives the unused places above `keeps` to the counter, so that other processes can use them. */
  async giveBack(keeps = this.#held.keeps): Promise<void> {
    while (this.#giving || (this.#held.places > keeps && !this.#isOver))
      await (this.#giving ??= this.#give(keeps).finally(() => (this.#giving = undefined)));
  }

  get #isOver(): boolean {
    return this.#nowMs() >= this.#held.endsAtMs;
  }

  /** Callers at the same time share one statement. */
  #take(tries: number, limit: number): Promise<void> {
    return (this.#taking ??= this.#takeFrom(tries, limit).finally(() => (this.#taking = undefined)));
  }

  async #takeFrom(tries: number, limit: number): Promise<void> {
    await this.giveBack(0);
    const startedMs = this.#nowMs();
    const taken = await this.#counter.take(this.#applicationId, tries, limit);
    if (taken.places === 0) throw tooManyMisses(taken.endsInMs);
    const { window, keeps, endsInMs } = taken;
    const before = window === this.#held.window ? this.#held.places : 0;
    const places = before + taken.places;
    this.#held = { window, limit, keeps, places, endsAtMs: startedMs + endsInMs };
  }

  async #give(keeps: number): Promise<void> {
    const { window, places } = this.#held;
    this.#held.places = keeps;
    // What cannot be given back stays counted.
    await this.#counter.giveBack(this.#applicationId, window, places - keeps).catch(() => undefined);
  }
}

const tooManyMisses = (endsInMs: number) =>
  new RateLimitedError(
    'Too many guesses of data by searches, deduplications or expressions: the setting data_misses_per_minute of the tenant limits them.',
    Math.max(1, Math.ceil(endsInMs / 1000)),
  );

/** Holds at most `maxEntries` applications; the first is dropped first, and its unused places with it. */
export function createMissLimit(options: MissLimitOptions = {}): MissLimit {
  const { nowMs = () => performance.now(), maxEntries = 20_000 } = options;
  const { counter = createProcessCounter(nowMs) } = options;
  const applications = new Map<string, Places>();

  function placesOf(applicationId: string): Places {
    const present = applications.get(applicationId);
    if (present) return present;
    const [first] = applications.keys();
    if (first !== undefined && applications.size >= maxEntries) applications.delete(first);
    const places = new Places(applicationId, counter, nowMs);
    applications.set(applicationId, places);
    return places;
  }

  return {
    countsHits,

    async count(context, tries) {
      const limit = limitOf(context);
      if (limit === 0) return { found: async () => undefined };
      const places = placesOf(context.principal.applicationId);
      const unuse = await places.use(tries, limit);
      return { found: countsHits(context) ? async () => undefined : unuse };
    },

    async guess(context, isMiss, work) {
      const limit = limitOf(context);
      if (limit === 0) return work();
      const places = placesOf(context.principal.applicationId);
      await places.use(0, limit);
      try {
        const result = await work().catch(async (error: unknown) => {
          if (isMiss(error) || error instanceof ExpressionsBusyError) await places.use(1, limit);
          throw error;
        });
        await places.use(0, limit);
        return result;
      } finally {
        await places.giveBack();
      }
    },
  };
}

/** 0 for a caller without a limit. The setting is validated when it is set, but a tenant of an earlier release may have any text. */
function limitOf({ principal: { tenant, actor } }: RequestContext): number {
  if (actor.kind === 'system') return 0;
  const given = tenant.settings[dataMissesPerMinuteSetting];
  return given !== undefined && isCount(given) ? Number(given) : defaultDataMissesPerMinute;
}

const countsHits = ({ principal }: RequestContext): boolean =>
  principal.tenant.settings[countDataHitsSetting] === 'true' && !seesEverything(principal, 'token:search');
