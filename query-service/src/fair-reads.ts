import { FairPlaces, type Holder } from '@token-vault/batching';
import { UnavailableError } from '@token-vault/contracts';
import { inFlight, requestTurns } from '@token-vault/http';
import type { Pool, QueryConfig, QueryResultRow } from 'pg';

/** The connections that lists, searches, counts and reports use. */
export interface Reader {
  query<Row extends QueryResultRow>(statement: QueryConfig): Promise<{ readonly rows: Row[] }>;
}

export interface FairReads {
  /** Runs statements of this application within its tenant's share of the pool. */
  of(holder: Holder): Reader;
  /** Counts work that the found rows cause, in milliseconds of the thread. Beside others, it makes the tenant rest like a long statement. */
  spend(tenantId: string, ms: number): void;
}

export interface FairReadOptions {
  /** The number of statements of one application that may wait. Those of its tenant are fewer than twice as many. */
  readonly waitingOfApplication?: number;
  /** The number of statements of all tenants that may wait. */
  readonly maxWaiting?: number;
  /** How long a statement may wait for a connection. */
  readonly waitMs?: number;
  /** Whether no other tenant uses the process now. */
  readonly isAlone?: (tenantId: string) => boolean;
  /** Throws when the application does not read its answers. */
  readonly requireRead?: (holder: Holder) => void;
  /** Monotonic milliseconds. */
  readonly nowMs?: () => number;
}

/** Connections that lists leave free for look-ups by id and for authentication. */
const keptFree = 2;
/** A statement that takes longer counts as long: it used a processor of the database, or returned many rows. So does work for the rows. */
const longMs = 20;
/** After a long statement the tenant rests for this multiple of its time. All rests together end after the longest time of a statement. */
const restOfLong = 3;
const longestRestMs = 5_000;

/** The tenants whose last statement was long. They rest, and have one place afterwards. */
class SlowTenants {
  /** A tenant rests until `untilMs`. Then its timer ends the rest. */
  readonly #states = new Map<string, { isResting: boolean; untilMs: number; timer: NodeJS.Timeout }>();
  readonly #nowMs: () => number;
  readonly #onEnd: () => void;

  constructor(nowMs: () => number, onEnd: () => void) {
    this.#nowMs = nowMs;
    this.#onEnd = onEnd;
  }

  /** Undefined for a tenant that is not slow. */
  placesOf(tenantId: string): 0 | 1 | undefined {
    const state = this.#states.get(tenantId);
    return state && (state.isResting ? 0 : 1);
  }

  /** The end of the present rest, or now. */
  endOfRest(tenantId: string): number {
    const state = this.#states.get(tenantId);
    return state?.isResting ? state.untilMs : this.#nowMs();
  }

  rest(tenantId: string, endMs: number): void {
    clearTimeout(this.#states.get(tenantId)?.timer);
    const untilMs = Math.min(endMs, this.#nowMs() + longestRestMs);
    const end = () => {
      state.isResting = false;
      this.#onEnd();
    };
    const state = { isResting: true, untilMs, timer: setTimeout(end, untilMs - this.#nowMs()).unref() };
    this.#states.set(tenantId, state);
  }

  /** A short statement ends the state, but not a rest. */
  endUnlessResting(tenantId: string): void {
    if (this.placesOf(tenantId) === 1) this.#states.delete(tenantId);
  }
}

/**
 * A list or a search may read the whole table of a tenant. So one tenant has at most half of the pool's connections
 * for them, all tenants together leave two free, and waiting statements are served by turns of the tenants, and of their applications. The pool
 * bounds the time of a statement. Beside other tenants, a tenant whose last statement was long has one place and rests
 * after each long one, so that its statements use a quarter of a processor.
 */
export function createFairReads(pool: Pool, options: FairReadOptions = {}): FairReads {
  const { waitingOfApplication = 200, maxWaiting = 2_000, waitMs = 10_000 } = options;
  const { isAlone = (tenantId) => requestTurns.isAlone(tenantId), nowMs = () => performance.now() } = options;
  const { requireRead = (holder) => inFlight.requireRead(holder) } = options;
  const size = pool.options.max;
  const places = Math.max(1, size - keptFree);
  const placesOfTenant = Math.max(1, Math.min(places, Math.floor(size / 2)));
  const slow = new SlowTenants(nowMs, () => fair.startWaiting());
  const placesOf = (tenantId: string) => slow.placesOf(tenantId) ?? placesOfTenant;
  const fair = new FairPlaces({
    places,
    placesOf,
    waitingOfTenant: waitingOfApplication,
    maxWaiting,
    refuse: tooMany,
  });

  async function enter(holder: Holder): Promise<void> {
    const waiting = fair.enter(holder.tenantId, holder.applicationId);
    if (!waiting) return;
    const timer = setTimeout(() => waiting.giveUp(tooMany()), waitMs);
    await waiting.begun.finally(() => clearTimeout(timer));
    try {
      requireRead(holder);
    } catch (error) {
      fair.leave(holder.tenantId);
      throw error;
    }
  }

  function leave(tenantId: string, tookMs: number): void {
    if (tookMs > longMs && !isAlone(tenantId))
      // Statements at the same time share the processors, so their times are not added.
      slow.rest(tenantId, Math.max(slow.endOfRest(tenantId), nowMs() + tookMs * restOfLong));
    else slow.endUnlessResting(tenantId);
    fair.leave(tenantId);
  }

  return {
    spend(tenantId, ms) {
      if (ms > longMs && !isAlone(tenantId)) slow.rest(tenantId, slow.endOfRest(tenantId) + ms * restOfLong);
    },
    of: (holder) => ({
      async query<Row extends QueryResultRow>(statement: QueryConfig) {
        await enter(holder);
        const begunMs = nowMs();
        try {
          return await pool.query<Row>(statement);
        } catch (error) {
          throw isTimeout(error) ? tooLong(error) : error;
        } finally {
          leave(holder.tenantId, nowMs() - begunMs);
        }
      },
    }),
  };
}

const tooMany = (): UnavailableError =>
  new UnavailableError('Too many lists and searches wait to be read. Nothing was shown; try again.');

/** Postgres gives `query_canceled` for a statement that exceeded `statement_timeout`. */
const isTimeout = (error: unknown): boolean => (error as { readonly code?: unknown }).code === '57014';

const tooLong = (cause: unknown): UnavailableError =>
  new UnavailableError('The query took too long and was stopped. Nothing was shown; ask for less.', {
    cause,
  });
