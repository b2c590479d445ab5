import { aliased, type DeliveryState, type InvocationRunState } from '@token-vault/contracts';
import type { Knex } from 'knex';
import type { Reader } from '../fair-reads.ts';
import { listNewest, type Page, type PageRequest } from '../paging.ts';
import { allOf, db, equals } from '../statements.ts';

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

const r = aliased('runs', 'run', 'r');
const a = aliased('runs', 'attempt', 'a');

const columns = [
  r.id,
  r.tenant_id,
  r.reactor_id,
  r.mode,
  r.state,
  r.invoked_by,
  r.invoked_at,
  r.started_at,
  r.ended_at,
  r.status,
  r.reason,
  r.delivery,
  r.next_at,
];
const byId = `select ${columns.join(', ')} from ${r.source} where ${r.tenant_id} = $1 and ${r.id} = $2`;
const attemptsOfRuns = `select ${a.run_id}, ${a.number}, ${a.attempted_at}, ${a.reason} from ${a.source}
  where ${a.tenant_id} = $1 and ${a.run_id} = any($2::uuid[]) order by ${a.run_id}, ${a.number}`;

export async function findRun(reader: Reader, tenantId: string, id: string): Promise<RunRow | undefined> {
  return (await reader.query<RunRow>({ text: byId, values: [tenantId, id] })).rows[0];
}

/** A tenant's runs, newest first. */
export function listRuns(
  reader: Reader,
  tenantId: string,
  { reactorId, state }: RunFilters,
  page: PageRequest,
): Promise<Page<RunRow>> {
  const chosen = db(r.source)
    .where(r.tenant_id, tenantId)
    .where(allOf([...equals(r.reactor_id, reactorId), ...equals(r.state, state)]));
  const withColumns = (query: Knex.QueryBuilder) => query.select(columns);
  return listNewest<RunRow>({ reader, chosen, of: r, withColumns }, page);
}

/** The attempts to deliver the results of these runs, in their order. */
export async function attemptsOf(
  reader: Reader,
  tenantId: string,
  runs: readonly RunRow[],
): Promise<readonly AttemptRow[]> {
  const delivered = runs.filter(({ delivery }) => delivery !== null).map(({ id }) => id);
  if (delivered.length === 0) return [];
  return (await reader.query<AttemptRow>({ text: attemptsOfRuns, values: [tenantId, delivered] })).rows;
}
