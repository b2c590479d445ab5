import { ApplicationRests, FairPlaces, type Holder } from '@token-vault/batching';
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
  /** Counts work that the found rows cause, in milliseconds of the thread. Beside others, it makes the application rest like a long statement. */
  spend(holder: Holder, ms: number): void;
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
/** After a long statement its application rests for this multiple of its time. All rests together end after the longest time of a statement. */
const restOfLong = 3;
const longestRestMs = 5_000;

/**
 * A list or a search may read the whole table of a tenant. So one tenant has at most half of the pool's connections
 * for them, all tenants together leave two free, and waiting statements are served by turns of the tenants, and of their applications. The pool
 * bounds the time of a statement. Beside other tenants, an application whose last statement was long has one place and rests
 * after each long one, so that the long statements of its tenant use a quarter of a processor (ApplicationRests).
 */
export function createFairReads(pool: Pool, options: FairReadOptions = {}): FairReads {
  const { waitingOfApplication = 200, maxWaiting = 2_000, waitMs = 10_000 } = options;
  const { isAlone = (tenantId) => requestTurns.isAlone(tenantId), nowMs = () => performance.now() } = options;
  const { requireRead = (holder) => inFlight.requireRead(holder) } = options;
  const size = pool.options.max;
  const places = Math.max(1, size - keptFree);
  const placesOfTenant = Math.max(1, Math.min(places, Math.floor(size / 2)));
  const rests = new ApplicationRests({
    onEnd: () => fair.startWaiting(),
    longestMs: longestRestMs,
    nowMs,
  });
  /** The applications whose last statement was long. They have one place, and none while they rest. */
  const slow = new Set<string>();
  const fair = new FairPlaces({
    places,
    placesOf: () => placesOfTenant,
    placesOfApplication(holder) {
      if (rests.isResting(holder)) return 0;
      return slow.has(keyOf(holder)) ? 1 : placesOfTenant;
    },
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
      fair.leave(holder.tenantId, holder.applicationId);
      throw error;
    }
  }

  function leave(holder: Holder, tookMs: number): void {
    const { tenantId, applicationId } = holder;
    if (tookMs > longMs && !isAlone(tenantId)) {
      slow.add(keyOf(holder));
      // Statements at the same time share the processors, so their times are not added.
      rests.rest(holder, tookMs * restOfLong);
    } else if (!rests.isResting(holder)) slow.delete(keyOf(holder));
    fair.leave(tenantId, applicationId);
  }

  return {
    spend(holder, ms) {
      if (ms <= longMs || isAlone(holder.tenantId)) return;
      slow.add(keyOf(holder));
      rests.extend(holder, ms * restOfLong);
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
          leave(holder, nowMs() - begunMs);
        }
      },
    }),
  };
}

const keyOf = ({ tenantId, applicationId }: Holder): string => `${tenantId} ${applicationId}`;

const tooMany = (): UnavailableError =>
  new UnavailableError('Too many lists and searches wait to be read. Nothing was shown; try again.');

/** Postgres gives `query_canceled` for a statement that exceeded `statement_timeout`. */
const isTimeout = (error: unknown): boolean => (error as { readonly code?: unknown }).code === '57014';

const tooLong = (cause: unknown): UnavailableError =>
  new UnavailableError('The query took too long and was stopped. Nothing was shown; ask for less.', {
    cause,
  });
