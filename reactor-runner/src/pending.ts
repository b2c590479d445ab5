import type { Pool } from 'pg';
import { rowsOf } from './read-model.ts';

/** Of all tenants. At most `mostCounted` each: that number says as many or more. */
export interface PendingInvocations {
  /** Asynchronous ones that no runner has begun. */
  readonly waiting: number;
  /** Begun and not over; synchronous ones too. */
  readonly running: number;
  /** Results that their receivers do not have yet. */
  readonly undelivered: number;
}

const mostCounted = 100_000;
const counted = (rows: string): string =>
  `(select count(*)::integer from (select from ${rows} limit ${mostCounted}) as counted)`;

const statement = `select
  ${counted('rm_invocations.waiting w where not exists (select from rm_invocations.running r where r.id = w.id)')} as waiting,
  ${counted('rm_invocations.running')} as running,
  ${counted('rm_invocations.delivery')} as undelivered`;

/** What the read model has of invocations that are not over; the same whichever runner is asked. */
export async function countPending(pool: Pool): Promise<PendingInvocations> {
  const [row] = await rowsOf<PendingInvocations>(pool, statement, []);
  return row ?? { waiting: 0, running: 0, undelivered: 0 };
}
