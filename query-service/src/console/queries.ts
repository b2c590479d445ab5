import { aliased, type ConsoleOverview, type EntityType, type LogOperation } from '@token-vault/contracts';
import type { Reader } from '../fair-reads.ts';
import { countOf, valueOf } from '../paging.ts';
import { db, sql } from '../statements.ts';

const windowSeconds = 10;
/** Maximum number of rows of the log that are read for the rates, and for the entries after a checkpoint. */
const maxRows = 100_000;

interface RateRow {
  readonly rows: number;
  readonly requests: number;
  /** Null when there are none. */
  readonly reveals: number | null;
  readonly appends: number;
  readonly first: Date | null;
}

const e = aliased('log', 'entry', 'e');
const rates = `
  select count(*)::float8 as rows, count(distinct l.trace_id)::float8 as requests,
    (sum(l.size) filter (where l.transform = 'reveal'))::float8 as reveals,
    count(distinct l.seq)::float8 as appends, min(l.created_at) as first
  from (select ${e.trace_id}, ${e.transform}, ${e.seq}, ${e.created_at}, ${e.size} from ${e.source}
    where ${e.tenant_id} = $1 and ${e.created_at} >= $2 and ${e.created_at} < $3
    order by ${e.created_at} desc limit ${maxRows}) l`;

/**
 * The number of requests, reveals and appends of the tenant in each of the last seconds, on average. A request has one trace id, and an
 * append one position. When more rows than the maximum are in the window, the rates are those of the shorter time that the read rows cover.
 */
export async function readRates(
  reader: Reader,
  tenantId: string,
  now: Date,
): Promise<ConsoleOverview['rates']> {
  const since = new Date(now.getTime() - windowSeconds * 1000);
  const row = (await reader.query<RateRow>({ text: rates, values: [tenantId, since, now] })).rows[0];
  const isCut = row?.first && row.rows >= maxRows;
  const seconds = isCut ? Math.max(0.001, (now.getTime() - row.first.getTime()) / 1000) : windowSeconds;
  const rate = (count = 0) => Math.round((count / seconds) * 100) / 100;
  return {
    seconds,
    requests: rate(row?.requests),
    reveals: rate(row?.reveals ?? 0),
    appends: rate(row?.appends),
  };
}

const r = aliased('runs', 'run', 'r');

export const countWaitingRuns = (reader: Reader, tenantId: string): Promise<number> =>
  countOf(reader, db(r.source).where(r.tenant_id, tenantId).where(r.state, 'waiting'));

/** The number of entries of the tenant's log after a position. `since` limits the part of the log that is read. */
export function countEntriesAfter(
  reader: Reader,
  tenantId: string,
  position: string,
  since: Date,
): Promise<number> {
  const after = db(e.source)
    .select(e.size)
    .where(e.tenant_id, tenantId)
    .where(e.created_at, '>=', since)
    .where(e.seq, '>', position)
    .limit(maxRows);
  return valueOf(reader, sql('(?)', db(after.as('after')).select(db.raw('coalesce(sum(size), 0)'))));
}

interface KindRow {
  readonly entity_type: EntityType;
  readonly operation: LogOperation;
  readonly count: number;
}

const c = aliased('log_summary', 'minute_count', 'c');
const lastHour = `
  select ${c.entity_type}, ${c.operation}, sum(${c.count})::float8 as count from ${c.source}
  where ${c.tenant_id} = $1 and ${c.at} >= date_trunc('minute', $2::timestamptz)
  group by 1, 2 order by 3 desc, 1, 2`;

/** The entries of the last 60 whole minutes and the present one, by kind. */
export async function countLastHour(
  reader: Reader,
  tenantId: string,
  now: Date,
): Promise<readonly KindRow[]> {
  const since = new Date(now.getTime() - 3_600_000);
  return (await reader.query<KindRow>({ text: lastHour, values: [tenantId, since] })).rows;
}
