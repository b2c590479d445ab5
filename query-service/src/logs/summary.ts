import { aliased, ValidationError, type LogGroup, type LogInterval } from '@token-vault/contracts';
import type { Knex } from 'knex';
import type { Reader } from '../fair-reads.ts';
import { allOf, compile, db, equals, isWithin, sql, type Range, type Sql } from '../statements.ts';
import { rowsOf, sizeOf, type LogFilters } from './entries.ts';
import { wholeUnits } from './queries.ts';

export interface SummaryRow {
  readonly start: Date;
  readonly value: string | null;
  readonly count: number;
}

export interface SummaryShape {
  readonly interval: LogInterval;
  readonly group: LogGroup | undefined;
}

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

/** The longest range of each interval, which limits the number of intervals that a summary reads. Days need no limit. */
const longest: Readonly<Record<LogInterval, number>> = {
  minute: 7 * dayMs,
  hour: 400 * dayMs,
  day: Number.POSITIVE_INFINITY,
};
const maxCounts = 10_000;
const maxEntries = 100_000;

/** @throws ValidationError (400) naming `start_date`. Nothing has been read or written then. */
export function requireBoundedRange(interval: LogInterval, { from, before }: Range, now: Date): void {
  const most = longest[interval];
  if (most === Number.POSITIVE_INFINITY) return;
  const bound = `at most ${most / dayMs} days before the end of the range for the interval ${interval}`;
  if (!from) throw ValidationError.of('start_date', `is required, ${bound}`);
  const end = Math.min(before?.getTime() ?? now.getTime(), now.getTime());
  if (end - from.getTime() > most) throw ValidationError.of('start_date', `must be ${bound}`);
}

/**
 * A tenant's log entries, counted by interval and group, in order of time. The counts of whole minutes or hours come from the counters.
 * Entries at the two ends of the range are counted one by one, so the sum equals the total of the list of the log. No counter exists for a
 * single entity or a trace: their entries are counted one by one, up to a limit.
 * @throws ValidationError (400) naming the parameter that asks for too many counts or entries
 */
export async function summarizeLogs(
  reader: Reader,
  tenantId: string,
  filters: LogFilters,
  shape: SummaryShape,
): Promise<readonly SummaryRow[]> {
  const statement = sql(
    `select date_trunc(?, s.at, 'UTC') as start, nullif(s.value, '') as value, sum(s.count)::float8 as count
    from (?) s group by 1, 2 having sum(s.count) <> 0 order by 1, 2 limit ?`,
    shape.interval,
    sourceOf(tenantId, filters, shape),
    maxCounts + 1,
  );
  const { rows } = await reader.query<SummaryRow>(compile(statement));
  if (rows.length > maxCounts)
    throw ValidationError.of(
      'interval',
      `gives more than ${maxCounts} counts; ask for a longer interval or a shorter range`,
    );
  const single = singleOf(filters);
  if (single && rows.reduce((sum, { count }) => sum + count, 0) > maxEntries)
    throw ValidationError.of(single, `has more than ${maxEntries} entries; ask for a shorter range`);
  return rows;
}

/** The filter for which there is no counter; undefined when counters can answer. */
const singleOf = ({ entityId, traceId }: LogFilters): string | undefined => {
  if (entityId !== undefined) return 'entity_id';
  return traceId === undefined ? undefined : 'trace_id';
};

function sourceOf(tenantId: string, filters: LogFilters, { interval, group }: SummaryShape): Sql {
  const unitMs = interval === 'minute' ? minuteMs : hourMs;
  const whole = singleOf(filters) === undefined ? wholeUnits(filters, unitMs) : undefined;
  if (!whole) return sql('? limit ?', entries(tenantId, filters, group), maxEntries + 1);
  const { from, before } = filters;
  const pieces = counted(tenantId, { ...filters, ...whole }, { interval, group });
  if (from?.getTime() !== whole.from?.getTime())
    pieces.push(entries(tenantId, { ...filters, before: whole.from }, group));
  if (before?.getTime() !== whole.before?.getTime())
    pieces.push(entries(tenantId, { ...filters, from: whole.before }, group));
  return sql(pieces.map(() => '(?)').join(' union all '), ...pieces);
}

const e = aliased('log', 'entry', 'e');
const tables = {
  minute: {
    plain: aliased('log_summary', 'minute_count', 'c'),
    reasons: aliased('log_summary', 'minute_reason_count', 'c'),
  },
  hour: {
    plain: aliased('log_summary', 'hour_count', 'c'),
    reasons: aliased('log_summary', 'hour_reason_count', 'c'),
  },
};
/** All four tables have these columns; the tables of reasons have one more. */
const { plain: c, reasons: byReason } = tables.hour;

/** The columns of a group, in the log and in its counters. */
const columns: Readonly<Record<LogGroup, readonly [entry: string, counter: string]>> = {
  actor: [e.actor_id, c.actor_id],
  operation: [e.operation, c.operation],
  entity_type: [e.entity_type, c.entity_type],
  transform: [e.transform, c.transform],
  reason: [e.reason, byReason.reason],
};
const none = "''::text";

const entries = (tenantId: string, filters: LogFilters, group: LogGroup | undefined): Knex.QueryBuilder =>
  rowsOf(tenantId, filters).select(
    `${e.created_at} as at`,
    db.raw(`coalesce(${group === undefined ? none : columns[group][0]}, '') as value`),
    db.raw(`${sizeOf(filters)}::bigint as count`),
  );

/** The number of entries without a reason is the number of all entries minus the number of those with a reason. */
function counted(
  tenantId: string,
  filters: LogFilters,
  { interval, group }: SummaryShape,
): Knex.QueryBuilder[] {
  const { plain, reasons } = tables[interval === 'minute' ? 'minute' : 'hour'];
  const value = group === undefined ? none : columns[group][1];
  const from = (
    { source }: { readonly source: string },
    of: string,
    sign: '' | '-' = '',
  ): Knex.QueryBuilder =>
    db(source)
      .select(`${c.at} as at`, db.raw(`${of} as value`), db.raw(`${sign}${c.count} as count`))
      .where(counterCondition(tenantId, filters));
  if (filters.reason !== undefined) return [from(reasons, value)];
  if (group !== 'reason') return [from(plain, value)];
  return [from(plain, none), from(reasons, none, '-'), from(reasons, byReason.reason)];
}

const counterCondition = (tenantId: string, filters: LogFilters): Sql =>
  allOf([
    sql(`${c.tenant_id} = ?`, tenantId),
    ...equals(c.actor_id, filters.actorId),
    ...equals(c.entity_type, filters.entityType),
    ...equals(c.operation, filters.operation),
    ...equals(c.transform, filters.transform),
    ...equals(c.request, filters.request),
    ...equals(byReason.reason, filters.reason),
    ...isWithin(c.at, filters),
  ]);
