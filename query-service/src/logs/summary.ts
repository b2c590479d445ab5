import { ValidationError, type LogGroup, type LogInterval } from '@token-vault/contracts';
import type { Reader } from '../fair-reads.ts';
import { allOf, compile, sql, type Sql } from '../sql.ts';
import { entryCondition, equals, wholeUnits, type LogFilters, type Range } from './queries.ts';

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

/** The longest ranges, so that a summary reads a bounded number of intervals. Days are few. */
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
 * A tenant's log entries, counted by interval and group, in order of time. The counts of whole minutes or hours come from the counters. Entries
 * at the two ends of the range are counted one by one, so the sum is what the list of the log has as its total. No counter exists
 * for a single entity or a trace: their entries are counted, up to a limit.
 * @throws ValidationError (400) naming what asks for too much.
 */
export async function summarizeLogs(
  reader: Reader,
  tenantId: string,
  filters: LogFilters,
  shape: SummaryShape,
): Promise<readonly SummaryRow[]> {
  const statement = sql`
    select date_trunc(${shape.interval}, s.at, 'UTC') as start, nullif(s.value, '') as value,
      sum(s.count)::float8 as count
    from (${sourceOf(tenantId, filters, shape)}) s
    group by 1, 2 having sum(s.count) <> 0 order by 1, 2 limit ${maxCounts + 1}`;
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

/** The filter that no counter serves. */
const singleOf = ({ entityId, traceId }: LogFilters): string | undefined => {
  if (entityId !== undefined) return 'entity_id';
  return traceId === undefined ? undefined : 'trace_id';
};

function sourceOf(tenantId: string, filters: LogFilters, { interval, group }: SummaryShape): Sql {
  const unitMs = interval === 'minute' ? minuteMs : hourMs;
  const whole = singleOf(filters) === undefined ? wholeUnits(filters, unitMs) : undefined;
  if (!whole) return sql`${entries(tenantId, filters, group)} limit ${maxEntries + 1}`;
  const { from, before } = filters;
  const pieces = counted(tenantId, { ...filters, ...whole }, { interval, group });
  if (from?.getTime() !== whole.from?.getTime())
    pieces.push(entries(tenantId, { ...filters, before: whole.from }, group));
  if (before?.getTime() !== whole.before?.getTime())
    pieces.push(entries(tenantId, { ...filters, from: whole.before }, group));
  return pieces.reduce((all, piece) => sql`${all} union all ${piece}`);
}

const columns: Readonly<Record<LogGroup, Sql>> = {
  actor: sql`actor_id`,
  operation: sql`operation`,
  entity_type: sql`entity_type`,
  transform: sql`transform`,
  reason: sql`reason`,
};
const none = sql`''::text`;
const valueOf = (group: LogGroup | undefined): Sql => (group === undefined ? none : columns[group]);

const entries = (tenantId: string, filters: LogFilters, group: LogGroup | undefined): Sql =>
  sql`select e.created_at as at, coalesce(${valueOf(group)}, '') as value, 1::bigint as count
    from rm_log.entry e where ${entryCondition(tenantId, filters)}`;

const tables = {
  minute: { plain: sql`rm_log_summary.minute_count`, reasons: sql`rm_log_summary.minute_reason_count` },
  hour: { plain: sql`rm_log_summary.hour_count`, reasons: sql`rm_log_summary.hour_reason_count` },
};

/** Entries without a reason are all entries less those with one. */
function counted(tenantId: string, filters: LogFilters, { interval, group }: SummaryShape): Sql[] {
  const { plain, reasons } = tables[interval === 'minute' ? 'minute' : 'hour'];
  const condition = counterCondition(tenantId, filters);
  const from = (table: Sql, value: Sql, count: Sql): Sql =>
    sql`select c.at, ${value} as value, ${count} as count from ${table} c where ${condition}`;
  if (filters.reason !== undefined) return [from(reasons, valueOf(group), sql`c.count`)];
  if (group !== 'reason') return [from(plain, valueOf(group), sql`c.count`)];
  return [
    from(plain, none, sql`c.count`),
    from(reasons, none, sql`-c.count`),
    from(reasons, columns.reason, sql`c.count`),
  ];
}

const counterCondition = (tenantId: string, filters: LogFilters): Sql =>
  allOf([
    sql`c.tenant_id = ${tenantId}::uuid`,
    ...equals(sql`c.actor_id`, filters.actorId),
    ...equals(sql`c.entity_type`, filters.entityType),
    ...equals(sql`c.operation`, filters.operation),
    ...equals(sql`c.transform`, filters.transform),
    ...equals(sql`c.request`, filters.request),
    ...equals(sql`c.reason`, filters.reason),
    ...(filters.from === undefined ? [] : [sql`c.at >= ${filters.from}`]),
    ...(filters.before === undefined ? [] : [sql`c.at < ${filters.before}`]),
  ]);
