import type { DeliveryState, InvocationRunState } from '@token-vault/contracts';
import type { Reader } from '../fair-reads.ts';
import { fetchPage, limits, totalOf, type Page, type PageRequest } from '../paging.ts';
import { allOf, compile, sql } from '../sql.ts';

/** A row of the read model `runs`. */
export interface RunRow {
  readonly id: string;
  readonly tenant_id: string;
  readonly reactor_id: string;
  readonly mode: 'sync' | 'async';
  readonly state: InvocationRunState;
  readonly invoked_by: string;
  readonly invoked_at: Date;
  readonly started_at: Date | null;
  readonly ended_at: Date | null;
  readonly status: number | null;
  readonly reason: string | null;
  readonly delivery: DeliveryState | null;
  readonly next_at: Date | null;
}

export interface AttemptRow {
  readonly run_id: string;
  readonly number: number;
  readonly attempted_at: Date;
  readonly reason: string | null;
}

export interface RunFilters {
  readonly reactorId: string | undefined;
  readonly state: InvocationRunState | undefined;
}

const columns = sql`r.id, r.tenant_id, r.reactor_id, r.mode, r.state, r.invoked_by, r.invoked_at, r.started_at, r.ended_at,
  r.status, r.reason, r.delivery, r.next_at`;

export async function findRun(reader: Reader, tenantId: string, id: string): Promise<RunRow | undefined> {
  const statement = sql`select ${columns} from rm_runs.run r
    where r.tenant_id = ${tenantId}::uuid and r.id = ${id}::uuid`;
  return (await reader.query<RunRow>(compile(statement))).rows[0];
}

/** A tenant's runs, newest first. */
export function listRuns(
  reader: Reader,
  tenantId: string,
  { reactorId, state }: RunFilters,
  page: PageRequest,
): Promise<Page<RunRow>> {
  const condition = allOf([
    sql`r.tenant_id = ${tenantId}::uuid`,
    ...(reactorId === undefined ? [] : [sql`r.reactor_id = ${reactorId}::uuid`]),
    ...(state === undefined ? [] : [sql`r.state = ${state}`]),
  ]);
  return fetchPage(
    page,
    () => totalOf(reader, sql`select count(*)::float8 as total from rm_runs.run r where ${condition}`),
    async () => {
      const statement = sql`select ${columns} from rm_runs.run r where ${condition}
        order by r.seq desc, r.id ${limits(page)}`;
      return (await reader.query<RunRow>(compile(statement))).rows;
    },
  );
}

/** The attempts to deliver the results of these runs, in their order. */
export async function attemptsOf(
  reader: Reader,
  tenantId: string,
  runs: readonly RunRow[],
): Promise<readonly AttemptRow[]> {
  const delivered = runs.filter(({ delivery }) => delivery !== null).map(({ id }) => id);
  if (delivered.length === 0) return [];
  const statement = sql`select a.run_id, a.number, a.attempted_at, a.reason from rm_runs.attempt a
    where a.tenant_id = ${tenantId}::uuid and a.run_id = any(${delivered}::uuid[])
    order by a.run_id, a.number`;
  return (await reader.query<AttemptRow>(compile(statement))).rows;
}
