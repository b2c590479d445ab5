import { holderOf } from '@token-vault/access';
import { ApplicationRests, FairPlaces, type Holder } from '@token-vault/batching';
import { UnavailableError } from '@token-vault/contracts';
import { inFlight, requestTurns } from '@token-vault/http';
import type { RequestContext } from '@token-vault/operations';
import type { Pool, QueryConfig, QueryResultRow } from 'pg';

/** The connections that lists, searches, counts and reports use. */
export interface Reader {
  query<Row extends QueryResultRow>(statement: QueryConfig): Promise<{ readonly rows: Row[] }>;
}

/** The application of a request, and how the request waits. */
interface ReadingRequest {
  readonly principal: Parameters<typeof holderOf>[0];
  readonly outOfTurn: RequestContext['outOfTurn'];
  readonly signal?: RequestContext['signal'];
}

export interface FairReads {
  /** Runs statements of this request within its tenant's share of the pool. A request whose statement must wait holds no place at the edge until the statement has ended. */
  of(request: ReadingRequest): Reader;
  /** Counts work that the found rows cause, in milliseconds of the thread. Beside others, it makes the application rest like a long statement. */
  spend(request: ReadingRequest, ms: number): void;
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

const keyOf = ({ tenantId, applicationId }: Holder): string => `${tenantId} ${applicationId}`;

/** The applications whose last statement was long. They rest, and have one place afterwards. */
class SlowApplications {
  readonly #slow = new Set<string>();
  readonly #rests: ApplicationRests;

  constructor(nowMs: () => number, onEnd: () => void) {
    this.#rests = new ApplicationRests({ nowMs, onEnd, longestMs: longestRestMs });
  }

  /** Undefined for an application that neither is slow nor waits for the rests of others. */
  placesOf(holder: Holder): 0 | 1 | undefined {
    if (this.#rests.isResting(holder)) return 0;
    return this.#slow.has(keyOf(holder)) ? 1 : undefined;
  }

  /** After a statement. Statements at the same time share the processors, so their times are not added. */
  rest(holder: Holder, tookMs: number): void {
    this.#slow.add(keyOf(holder));
    this.#rests.rest(holder, tookMs * restOfLong);
  }

  /** After other work. */
  extend(holder: Holder, ms: number): void {
    this.#slow.add(keyOf(holder));
    this.#rests.extend(holder, ms * restOfLong);
  }

  /** A short statement ends the state, but not a rest. */
  endUnlessResting(holder: Holder): void {
    if (!this.#rests.isResting(holder)) this.#slow.delete(keyOf(holder));
  }
}

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
  const slow = new SlowApplications(nowMs, () => fair.startWaiting());
  const fair = new FairPlaces({
    places,
    placesOf: () => placesOfTenant,
    placesOfApplication: (holder) => slow.placesOf(holder) ?? placesOfTenant,
    waitingOfTenant: waitingOfApplication,
    maxWaiting,
    refuse: tooMany,
  });

  function leave(holder: Holder, tookMs: number): void {
    if (tookMs > longMs && !isAlone(holder.tenantId)) slow.rest(holder, tookMs);
    else slow.endUnlessResting(holder);
    fair.leave(holder.tenantId, holder.applicationId);
  }

  async function run<Row extends QueryResultRow>(holder: Holder, statement: QueryConfig, hasWaited: boolean) {
    const begunMs = nowMs();
    try {
      if (hasWaited) requireRead(holder);
      return await pool.query<Row>(statement);
    } catch (error) {
      throw isTimeout(error) ? tooLong(error) : error;
    } finally {
      leave(holder, nowMs() - begunMs);
    }
  }

  return {
    spend({ principal }, ms) {
      const holder = holderOf(principal);
      if (ms > longMs && !isAlone(holder.tenantId)) slow.extend(holder, ms);
    },
    of: ({ principal, outOfTurn, signal }) => ({
      async query<Row extends QueryResultRow>(statement: QueryConfig) {
        const holder = holderOf(principal);
        const waiting = fair.enter(holder.tenantId, holder.applicationId);
        if (!waiting) return run<Row>(holder, statement, false);
        const reading = waiting.begunWithin(waitMs, signal).then(() => run<Row>(holder, statement, true));
        // The edge may refuse the wait. Then the statement returns its place all the same, and its error has no reader.
        reading.catch(() => undefined);
        return outOfTurn(() => reading);
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
