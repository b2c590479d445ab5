import { FairPlaces } from '@token-vault/batching';
import { UnavailableError } from '@token-vault/contracts';
import type { Pool, QueryConfig, QueryResultRow } from 'pg';

/** The connections that lists, searches, counts and reports use. */
export interface Reader {
  query<Row extends QueryResultRow>(statement: QueryConfig): Promise<{ readonly rows: Row[] }>;
}

export interface FairReads {
  /** Runs statements of this tenant within the tenant's share of the pool. */
  of(tenantId: string): Reader;
}

export interface FairReadOptions {
  /** The number of statements of one tenant that may wait. */
  readonly waitingOfTenant?: number;
  /** The number of statements of all tenants that may wait. */
  readonly maxWaiting?: number;
  /** How long a statement may wait for a connection. */
  readonly waitMs?: number;
}

/** Connections that lists leave free for look-ups by id and for authentication. */
const keptFree = 2;

/**
 * A list or a search may read the whole table of a tenant. So one tenant has at most half of the pool's connections
 * for them, all tenants together leave two free, and waiting statements are served by turns of the tenants. The pool
 * bounds the time of a statement.
 */
export function createFairReads(pool: Pool, options: FairReadOptions = {}): FairReads {
  const { waitingOfTenant = 200, maxWaiting = 2_000, waitMs = 10_000 } = options;
  const size = pool.options.max;
  const places = Math.max(1, size - keptFree);
  const placesOfTenant = Math.max(1, Math.min(places, Math.floor(size / 2)));
  const placesOf = (): number => placesOfTenant;
  const fair = new FairPlaces({ places, placesOf, waitingOfTenant, maxWaiting, refuse: tooMany });

  async function enter(tenantId: string): Promise<void> {
    const waiting = fair.enter(tenantId);
    if (!waiting) return;
    const timer = setTimeout(() => waiting.giveUp(tooMany()), waitMs);
    await waiting.begun.finally(() => clearTimeout(timer));
  }

  return {
    of: (tenantId) => ({
      async query<Row extends QueryResultRow>(statement: QueryConfig) {
        await enter(tenantId);
        try {
          return await pool.query<Row>(statement);
        } catch (error) {
          throw isTimeout(error) ? tooLong(error) : error;
        } finally {
          fair.leave(tenantId);
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
