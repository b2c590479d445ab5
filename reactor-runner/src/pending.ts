import { aliased } from '@token-vault/contracts';
import type { Pool } from 'pg';
import { rowsOf } from './read-model.ts';

/** Counts over all tenants. A count stops at `mostCounted`, which means that many or more. */
export interface PendingInvocations {
  /** Asynchronous invocations that no runner has started. */
  readonly waiting: number;
  /** Runs that have started and not ended, synchronous ones included. */
  readonly running: number;
  /** Results that are not delivered yet. */
  readonly undelivered: number;
}

const mostCounted = 100_000;
const counted = (rows: string): string =>
  `(select count(*)::integer from (select from ${rows} limit ${mostCounted}) as counted)`;

const w = aliased('invocations', 'waiting', 'w');
const r = aliased('invocations', 'running', 'r');
const d = aliased('invocations', 'delivery', 'd');

const statement = `select
  ${counted(`${w.source} where not exists (select from ${r.source} where ${r.id} = ${w.id})`)} as waiting,
  ${counted(r.source)} as running,
  ${counted(`${d.source} where ${d.next_at} is not null`)} as undelivered`;

/** The unfinished invocations of the read model. Every runner gives the same. */
export async function countPending(pool: Pool): Promise<PendingInvocations> {
  const [row] = await rowsOf<PendingInvocations>(pool, statement, []);
  return row ?? { waiting: 0, running: 0, undelivered: 0 };
}
