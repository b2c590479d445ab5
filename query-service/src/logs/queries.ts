import { aliased, type Transform } from '@token-vault/contracts';
import type { Knex } from 'knex';
import type { Reader } from '../fair-reads.ts';
import { fetchPage, valueOf, type Page, type PageRequest } from '../paging.ts';
import { allOf, compile, db, equals, isWithin, sql, type Range } from '../statements.ts';
import { pageOfEntries, rowsOf, sizeOf, type LogFilters } from './entries.ts';

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

const e = aliased('log', 'entry', 'e');
const columns = [
  e.tenant_id,
  e.actor_id,
  e.actor_type,
  e.entity_type,
  e.operation,
  e.transform,
  e.request,
  e.trace_id,
  e.reason,
  e.message,
  e.created_at,
];

/** A tenant's log entries, newest first by `occurred_at`. The range limits the same time. */
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
      const statement = pageOfEntries(tenantId, filters, page, columns);
      return (await reader.query<LogRow>(compile(statement))).rows;
    },
  );
}

/**
 * Whole hours are summed from their counters, so that a count of millions touches few rows. The entries at the two
 * ends of the range are counted one by one. No counter exists for a single entity, a trace or a reason, because these have few
 * entries.
 */
function countEntries(reader: Reader, tenantId: string, filters: LogFilters): Promise<number> {
  const isOfOne = [filters.entityId, filters.traceId, filters.reason].some((each) => each !== undefined);
  const hours = isOfOne ? undefined : wholeUnits(filters);
  const scanned = (range: Range) =>
    rowsOf(tenantId, { ...filters, ...range }).select(db.raw(`coalesce(sum(${sizeOf(filters)}), 0)`));
  if (!hours) return valueOf(reader, sql('?', scanned(filters)));
  const parts = [counted(tenantId, filters, hours)];
  if (filters.from?.getTime() !== hours.from?.getTime()) parts.push(scanned({ before: hours.from }));
  if (filters.before?.getTime() !== hours.before?.getTime()) parts.push(scanned({ from: hours.before }));
  return valueOf(reader, sql(parts.map(() => '(?)').join(' + '), ...parts));
}

/** The whole units (UTC), an hour each by default, of a range; undefined when there are none. */
export function wholeUnits({ from, before }: Range, unitMs = 3_600_000): Range | undefined {
  const first = from && new Date(Math.ceil(from.getTime() / unitMs) * unitMs);
  const end = before && new Date(Math.floor(before.getTime() / unitMs) * unitMs);
  return first && end && first >= end ? undefined : { from: first, before: end };
}

const byActor = aliased('log', 'actor_kind_count', 'c');
const byKind = aliased('log', 'entry_kind_count', 'c');
const byType = aliased('log', 'entry_count', 'c');

/** The smallest counter table that holds all columns of the filter. */
function countersFor({ actorId, operation, transform, request }: LogFilters): string {
  if (actorId !== undefined) return byActor.source;
  return [operation, transform, request].every((each) => each === undefined) ? byType.source : byKind.source;
}

const counted = (tenantId: string, filters: LogFilters, hours: Range): Knex.QueryBuilder =>
  db(countersFor(filters))
    .select(db.raw(`coalesce(sum(${byType.count}), 0)`))
    .where(byType.tenant_id, tenantId)
    .where(
      allOf([
        ...equals(byActor.actor_id, filters.actorId),
        ...equals(byType.entity_type, filters.entityType),
        ...equals(byKind.operation, filters.operation),
        ...equals(byKind.transform, filters.transform),
        ...equals(byKind.request, filters.request),
        ...isWithin(byType.hour, hours),
      ]),
    );
