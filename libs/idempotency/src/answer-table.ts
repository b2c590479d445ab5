import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import type { StoredAnswer } from './sealed-answer.ts';

export type Queryable = Pick<pg.Pool, 'query'>;

/** The result of a request's claim on its scope. */
export type Claim =
  /** The request runs. If an earlier attempt was cut off, `requestId` is that of the earlier attempt. */
  | {
      readonly kind: 'held';
      readonly requestId: string;
      readonly holder: string;
      /** Another process held the request before, and stored no answer. */
      readonly isTakenOver: boolean;
    }
  | { readonly kind: 'answered'; readonly requestId: string; readonly answer: StoredAnswer }
  | { readonly kind: 'in-flight' };

interface HeldRow {
  request_id: string;
}

interface FoundRow {
  request_id: string;
  answer: StoredAnswer | null;
}

/**
 * Claims a scope that is free, whose answer has expired, or whose holder no longer extends its lease. Leases are measured by the database's
 * clock, which all replicas share; the lifetime of an answer by the vault's clock.
 */
const claimStatement = `
insert into idempotency.answer as a (scope, tenant_id, request_id, held_by, held_until, expires_at)
values ($1, $2, $3, $4, clock_timestamp() + $5 * interval '1 millisecond', $6)
on conflict (scope) do update
  set request_id = case when a.expires_at <= $7 then excluded.request_id else a.request_id end,
      held_by = excluded.held_by, held_until = excluded.held_until, expires_at = excluded.expires_at, answer = null
  where a.expires_at <= $7 or (a.answer is null and a.held_until <= clock_timestamp())
returning request_id`;

const maxRounds = 5;
const sweepPortion = 2_000;

/** The request that holds the scope, or its answer. Undefined when its row was deleted meanwhile. */
async function readHeld(pool: Queryable, scope: Buffer): Promise<Claim | undefined> {
  const { rows } = await pool.query<FoundRow>({
    name: 'idempotency-find',
    text: 'select request_id, answer from idempotency.answer where scope = $1',
    values: [scope],
  });
  const [row] = rows;
  if (!row) return undefined;
  const { request_id: requestId, answer } = row;
  return answer ? { kind: 'answered', requestId, answer } : { kind: 'in-flight' };
}

/** The rows of `idempotency.answer`. */
export function createAnswerTable(pool: Queryable, leaseMs: number) {
  return {
    async claim(scope: Buffer, tenantId: string, now: Date, expiresAt: Date): Promise<Claim> {
      const holder = randomUUID();
      // Another round when the row that refused the claim was deleted before it was read.
      for (let round = 0; round < maxRounds; round += 1) {
        const fresh = randomUUID();
        const values = [scope, tenantId, fresh, holder, leaseMs, expiresAt, now];
        const held = await pool.query<HeldRow>({ name: 'idempotency-claim', text: claimStatement, values });
        if (held.rows[0]) {
          const { request_id: requestId } = held.rows[0];
          return { kind: 'held', requestId, holder, isTakenOver: requestId !== fresh };
        }
        const found = await readHeld(pool, scope);
        if (found) return found;
      }
      return { kind: 'in-flight' };
    },

    /**
     * Extends the leases of `holders`, in one statement for all requests of the process. The statement may come late: a lease that has been
     * ended stays so, else the repeat would get 409.
     */
    async extend(holders: readonly string[]): Promise<void> {
      await pool.query({
        name: 'idempotency-extend',
        text: `update idempotency.answer set held_until = clock_timestamp() + $2 * interval '1 millisecond'
               where answer is null and held_by = any($1::uuid[]) and held_until > '-infinity'`,
        values: [holders, leaseMs],
      });
    },

    /** Does nothing when another process has taken the request over: that process stores its own answer. */
    async store(scope: Buffer, holder: string, answer: StoredAnswer): Promise<void> {
      await pool.query({
        name: 'idempotency-store',
        text: 'update idempotency.answer set answer = $3 where scope = $1 and held_by = $2 and answer is null',
        values: [scope, holder, JSON.stringify(answer)],
      });
    },

    /** The request did nothing: the next request with its key counts as the first. */
    async release(scope: Buffer, holder: string): Promise<void> {
      await pool.query({
        name: 'idempotency-release',
        text: 'delete from idempotency.answer where scope = $1 and held_by = $2 and answer is null',
        values: [scope, holder],
      });
    },

    /** Ends the leases of all requests. */
    async abandonAll(): Promise<void> {
      await pool.query(`update idempotency.answer set held_until = '-infinity' where answer is null`);
    },

    /** The outcome of the request is unknown: the next request continues in its place, with the same event ids. */
    async abandon(scope: Buffer, holder: string): Promise<void> {
      await pool.query({
        name: 'idempotency-abandon',
        text: `update idempotency.answer set held_until = '-infinity' where scope = $1 and held_by = $2 and answer is null`,
        values: [scope, holder],
      });
    },
  };
}
export type AnswerTable = ReturnType<typeof createAnswerTable>;

/** Deletes expired answers, except those of requests that still run. In portions, so that rows are not locked for long. */
export async function sweepAnswers(pool: Queryable, now: Date): Promise<number> {
  let swept = 0;
  for (;;) {
    const { rowCount } = await pool.query({
      name: 'idempotency-sweep',
      text: `delete from idempotency.answer where scope = any(array(
               select scope from idempotency.answer
               where expires_at <= $1 and (answer is not null or held_until <= clock_timestamp())
               order by expires_at limit $2 for update skip locked))`,
      values: [now, sweepPortion],
    });
    swept += rowCount ?? 0;
    if ((rowCount ?? 0) < sweepPortion) return swept;
  }
}
