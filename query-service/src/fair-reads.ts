import { UnavailableError } from '@token-vault/contracts';
import { FairQueue } from '@token-vault/expressions';
import type { Pool, QueryConfig, QueryResultRow } from 'pg';

/** What lists, searches, counts and reports read by. */
export interface Reader {
  query<Row extends QueryResultRow>(statement: QueryConfig): Promise<{ readonly rows: Row[] }>;
}

export interface FairReads {
  /** Runs statements of this tenant in its share of the pool. */
  of(tenantId: string): Reader;
}

export interface FairReadOptions {
  /** Statements of one tenant that may wait. */
  readonly waitingOfTenant?: number;
  /** Statements of all tenants that may wait. */
  readonly maxWaiting?: number;
  /** How long a statement may wait for a connection. */
  readonly waitMs?: number;
}

/** Connections that lists leave to look-ups by id and to the making out of callers. */
const keptFree = 2;

/**
 * Lists and searches may each read a tenant's whole table. So one tenant has at most half of the pool's connections for them, all
 * tenants together leave two free, and who waits is served by turns of the tenants. The time of a statement is bounded by the pool.
 */
export function createFairReads(pool: Pool, options: FairReadOptions = {}): FairReads {
  const { waitingOfTenant = 200, maxWaiting = 2_000, waitMs = 10_000 } = options;
  const size = pool.options.max;
  const places = Math.max(1, size - keptFree);
  const placesOfTenant = Math.max(1, Math.min(places, Math.floor(size / 2)));
  const waiting = new FairQueue<() => void>();
  const running = new Map<string, number>();
  let total = 0;

  const runningOf = (tenantId: string): number => running.get(tenantId) ?? 0;
  const mayRun = (tenantId: string): boolean => runningOf(tenantId) < placesOfTenant;

  function take(tenantId: string): void {
    total += 1;
    running.set(tenantId, runningOf(tenantId) + 1);
  }

  async function enter(tenantId: string): Promise<void> {
    if (total < places && mayRun(tenantId)) return take(tenantId);
    if (waiting.sizeOf(tenantId) >= waitingOfTenant || waiting.size >= maxWaiting) throw tooMany();
    await new Promise<void>((resolve, reject) => {
      // Whoever leaves takes the place for the one that it wakes.
      const start = (): void => {
        clearTimeout(timer);
        take(tenantId);
        resolve();
      };
      const timer = setTimeout(() => {
        if (waiting.remove(tenantId, start)) reject(tooMany());
      }, waitMs);
      waiting.push(tenantId, start);
    });
  }

  function leave(tenantId: string): void {
    total -= 1;
    const left = runningOf(tenantId) - 1;
    if (left > 0) running.set(tenantId, left);
    else running.delete(tenantId);
    while (total < places) {
      const next = waiting.take(mayRun);
      if (!next) return;
      next();
    }
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
          leave(tenantId);
        }
      },
    }),
  };
}

const tooMany = (): UnavailableError =>
  new UnavailableError('Too many lists and searches wait to be read. Nothing was shown; try again.');

/** Postgres says `query_canceled` of a statement that ran into `statement_timeout`. */
const isTimeout = (error: unknown): boolean => (error as { readonly code?: unknown }).code === '57014';

const tooLong = (cause: unknown): UnavailableError =>
  new UnavailableError('The query took too long and was stopped. Nothing was shown; ask for less.', {
    cause,
  });
