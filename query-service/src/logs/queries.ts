import type { Transform } from '@token-vault/contracts';
import type { Reader } from '../fair-reads.ts';
import { fetchPage, limits, totalOf, type Page, type PageRequest } from '../paging.ts';
import { allOf, compile, nothing, sql, type Sql } from '../sql.ts';

/** A row of the read model `log`. */
export interface LogRow {
  readonly tenant_id: string;
  readonly actor_id: string | null;
  readonly actor_type: string | null;
  readonly entity_type: string;
  readonly entity_id: string | null;
  readonly operation: string;
  readonly transform: Transform | null;
  readonly request: string | null;
  readonly trace_id: string | null;
  readonly reason: string | null;
  readonly message: string;
  readonly created_at: Date;
}

export interface LogFilters {
  readonly entityType?: string | undefined;
  readonly entityId?: string | undefined;
  readonly actorId?: string | undefined;
  readonly operation?: string | undefined;
  readonly transform?: string | undefined;
  readonly request?: string | undefined;
  readonly traceId?: string | undefined;
  readonly reason?: string | undefined;
  /** The first instant of the range (included). */
  readonly from?: Date | undefined;
  /** The end of the range (excluded). */
  readonly before?: Date | undefined;
}

/** A tenant's log entries, newest first by `occurred_at`, the time by which the range is cut too. */
export function listLogs(
  reader: Reader,
  tenantId: string,
  filters: LogFilters,
  page: PageRequest,
): Promise<Page<LogRow>> {
  return fetchPage(
    page,
    () => countEntries(reader, tenantId, filters),
    async () => {
      const statement = sql`
        with chosen as materialized (
          select e.tenant_id, e.created_at, e.seq, e.ordinal from rm_log.entry e
          where ${entryCondition(tenantId, filters)}
          order by e.created_at desc, e.seq desc, e.ordinal desc ${limits(page)}
        )
        select e.tenant_id, e.actor_id, e.actor_type, e.entity_type, e.entity_id,
          e.operation, e.transform, e.request, e.trace_id, e.reason, e.message, e.created_at
        from chosen
        join rm_log.entry e using (tenant_id, created_at, seq, ordinal)
        order by chosen.created_at desc, chosen.seq desc, chosen.ordinal desc`;
      return (await reader.query<LogRow>(compile(statement))).rows;
    },
  );
}

/** The condition that `column` equals `value`. No condition when `value` is undefined. */
export const equals = (column: Sql, value: string | undefined): Sql[] =>
  value === undefined ? [] : [sql`${column} = ${value}`];

export function entryCondition(tenantId: string, filters: LogFilters): Sql {
  const { from, before } = filters;
  return allOf([
    sql`e.tenant_id = ${tenantId}::uuid`,
    ...equals(sql`e.entity_type`, filters.entityType),
    ...equals(sql`e.entity_id`, filters.entityId),
    ...equals(sql`e.actor_id`, filters.actorId),
    ...equals(sql`e.operation`, filters.operation),
    ...equals(sql`e.transform`, filters.transform),
    ...equals(sql`e.request`, filters.request),
    ...equals(sql`e.trace_id`, filters.traceId),
    ...equals(sql`e.reason`, filters.reason),
    ...(from === undefined ? [] : [sql`e.created_at >= ${from}`]),
    ...(before === undefined ? [] : [sql`e.created_at < ${before}`]),
  ]);
}

/**
 * Whole hours are summed from their counters, so that a count of millions touches few rows. The entries at the two
 * ends of the range are counted one by one. No counter exists for a single entity, a trace or a reason, because these have few
 * entries.
 */
function countEntries(reader: Reader, tenantId: string, filters: LogFilters): Promise<number> {
  const isOfOne = [filters.entityId, filters.traceId, filters.reason].some((each) => each !== undefined);
  const hours = isOfOne ? undefined : wholeUnits(filters);
  const statement = hours
    ? sql`select ((${counted(tenantId, filters, hours)}) ${edges(tenantId, filters, hours)})::float8 as total`
    : sql`select (${scanned(tenantId, filters)})::float8 as total`;
  return totalOf(reader, statement);
}

export interface Range {
  readonly from?: Date | undefined;
  readonly before?: Date | undefined;
}

/** The whole units (UTC), an hour each by default, of a range; undefined when there are none. */
export function wholeUnits({ from, before }: Range, unitMs = 3_600_000): Range | undefined {
  const first = from && new Date(Math.ceil(from.getTime() / unitMs) * unitMs);
  const end = before && new Date(Math.floor(before.getTime() / unitMs) * unitMs);
  return first && end && first >= end ? undefined : { from: first, before: end };
}

const scanned = (tenantId: string, filters: LogFilters): Sql =>
  sql`select count(*) from rm_log.entry e where ${entryCondition(tenantId, filters)}`;

/** The smallest counter table that holds all columns of the filter. */
function countersFor({ actorId, operation, transform, request }: LogFilters): Sql {
  if (actorId !== undefined) return sql`rm_log.actor_kind_count`;
  return [operation, transform, request].every((each) => each === undefined)
    ? sql`rm_log.entry_count`
    : sql`rm_log.entry_kind_count`;
}

const counted = (tenantId: string, filters: LogFilters, { from, before }: Range): Sql =>
  sql`select coalesce(sum(c.count), 0) from ${countersFor(filters)} c where ${allOf([
    sql`c.tenant_id = ${tenantId}::uuid`,
    ...equals(sql`c.actor_id`, filters.actorId),
    ...equals(sql`c.entity_type`, filters.entityType),
    ...equals(sql`c.operation`, filters.operation),
    ...equals(sql`c.transform`, filters.transform),
    ...equals(sql`c.request`, filters.request),
    ...(from === undefined ? [] : [sql`c.hour >= ${from}`]),
    ...(before === undefined ? [] : [sql`c.hour < ${before}`]),
  ])}`;

function edges(tenantId: string, filters: LogFilters, hours: Range): Sql {
  const head = { ...filters, before: hours.from };
  const tail = { ...filters, from: hours.before };
  const hasHead = filters.from?.getTime() !== hours.from?.getTime();
  const hasTail = filters.before?.getTime() !== hours.before?.getTime();
  return sql`${hasHead ? sql`+ (${scanned(tenantId, head)})` : nothing}
    ${hasTail ? sql`+ (${scanned(tenantId, tail)})` : nothing}`;
}
