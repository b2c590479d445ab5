import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import type { StoredAnswer } from './sealed-answer.ts';

export type Queryable = Pick<pg.Pool, 'query'>;

/** What a request finds when it comes. */
export type Claim =
  /** It is to run. `requestId` is that of an earlier attempt when one was cut off. */
  | { readonly kind: 'held'; readonly requestId: string; readonly holder: string }
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
 * Takes a scope that is free, whose answer has expired, or whose holder is gone. Leases are measured by the database's clock,
 * which all replicas share; the life of an answer by the vault's.
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

/** The rows of `idempotency.answer`. */
export function createAnswerTable(pool: Queryable, leaseMs: number) {
  return {
    async claim(scope: Buffer, tenantId: string, now: Date, expiresAt: Date): Promise<Claim> {
      const holder = randomUUID();
      // Again when the row that refused the claim is gone by the time it is read.
      for (let round = 0; round < maxRounds; round += 1) {
        const values = [scope, tenantId, randomUUID(), holder, leaseMs, expiresAt, now];
        const held = await pool.query<HeldRow>({ name: 'idempotency-claim', text: claimStatement, values });
        if (held.rows[0]) return { kind: 'held', requestId: held.rows[0].request_id, holder };
        const found = await pool.query<FoundRow>({
          name: 'idempotency-find',
          text: 'select request_id, answer from idempotency.answer where scope = $1',
          values: [scope],
        });
        const row = found.rows[0];
        if (!row) continue;
        const { request_id: requestId, answer } = row;
        return answer ? { kind: 'answered', requestId, answer } : { kind: 'in-flight' };
      }
      return { kind: 'in-flight' };
    },

    /** Keeps what `holders` hold, in one statement for all requests of the process. */
    async extend(holders: readonly string[]): Promise<void> {
      await pool.query({
        name: 'idempotency-extend',
        text: `update idempotency.answer set held_until = clock_timestamp() + $2 * interval '1 millisecond'
               where answer is null and held_by = any($1::uuid[])`,
        values: [holders, leaseMs],
      });
    },

    /** Nothing happens when another has taken the request over: it stores its own. */
    async store(scope: Buffer, holder: string, answer: StoredAnswer): Promise<void> {
      await pool.query({
        name: 'idempotency-store',
        text: 'update idempotency.answer set answer = $3 where scope = $1 and held_by = $2 and answer is null',
        values: [scope, holder, JSON.stringify(answer)],
      });
    },

    /** The request did nothing: the next one with its key is the first. */
    async release(scope: Buffer, holder: string): Promise<void> {
      await pool.query({
        name: 'idempotency-release',
        text: 'delete from idempotency.answer where scope = $1 and held_by = $2 and answer is null',
        values: [scope, holder],
      });
    },

    /** Nobody knows what the request did: the next one goes on in its place, with the same event ids. */
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

/** Deletes what has expired, but for requests that still run. In portions, so that nothing is locked for long. */
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
