import { aliased } from '@token-vault/contracts';
import type { Knex } from 'knex';
import { offsetOf, pageOf, type PageRequest } from '../paging.ts';
import { allOf, db, descending, equals, isWithin, type Range } from '../statements.ts';

export interface LogFilters extends Range {
  readonly entityType?: string | undefined;
  readonly entityId?: string | undefined;
  readonly actorId?: string | undefined;
  readonly operation?: string | undefined;
  readonly transform?: string | undefined;
  readonly request?: string | undefined;
  readonly traceId?: string | undefined;
  readonly reason?: string | undefined;
}

const e = aliased('log', 'entry', 'e');
const n = aliased('log', 'entry_entity', 'n');
/** The key of a row, in a tenant. The log is answered in this order, backwards. */
const order = ['created_at', 'seq', 'ordinal'] as const;
const key = ['tenant_id', ...order] as const;

/**
 * The row of the log, with the alias `e`, of each key in `source`. `limit 1` makes Postgres look each key up in the index. A plain join may
 * compare all rows with all rows while the statistics are old.
 */
const rowOfEach = (source: string): string => {
  const isItsRow = key.map((column) => `${e[column]} = ${source}.${column}`).join(' and ');
  return `cross join lateral (select * from ${e.source} where ${isItsRow} limit 1) e`;
};

/**
 * The rows of the log, with the alias `e`. A row has an entry for each of its entities, `e.size` in all. With a filter by entity, the
 * entries of that entity, with the alias `f` and their place in the row.
 */
export function rowsOf(tenantId: string, filters: LogFilters): Knex.QueryBuilder {
  const { entityId } = filters;
  const rows =
    entityId === undefined
      ? db(e.source)
      : db(entriesOf(tenantId, entityId, filters).as('f')).joinRaw(rowOfEach('f'));
  return rows
    .where(e.tenant_id, tenantId)
    .where(
      allOf([
        ...equals(e.entity_type, filters.entityType),
        ...equals(e.actor_id, filters.actorId),
        ...equals(e.operation, filters.operation),
        ...equals(e.transform, filters.transform),
        ...equals(e.request, filters.request),
        ...equals(e.trace_id, filters.traceId),
        ...equals(e.reason, filters.reason),
        ...isWithin(e.created_at, filters),
      ]),
    );
}

/** The number of entries in one result of `rowsOf`, as SQL. */
export const sizeOf = ({ entityId }: LogFilters): string => (entityId === undefined ? e.size : '1');

/** The entries of one entity: from rows with this entity only, and from rows with several. */
function entriesOf(tenantId: string, entityId: string, range: Range): Knex.QueryBuilder {
  const alone = db(e.source)
    .select(e.tenant_id, e.created_at, e.seq, e.ordinal, db.raw('1 as place'))
    .where(e.tenant_id, tenantId)
    .where(allOf([...equals(e.entity_id, entityId), ...isWithin(e.created_at, range)]));
  const amongOthers = db(n.source)
    .select(n.tenant_id, n.created_at, n.seq, n.ordinal, n.place)
    .where(n.tenant_id, tenantId)
    .where(allOf([...equals(n.entity_id, entityId), ...isWithin(n.created_at, range)]));
  return alone.unionAll(amongOthers);
}

/** The rows with the entries of a page, newest first, and the places of these entries: from `last_place` down to `first_place`. */
function chosenRows(tenantId: string, filters: LogFilters, page: PageRequest): Knex.QueryBuilder {
  const rows = rowsOf(tenantId, filters).select(e.tenant_id, e.created_at, e.seq, e.ordinal);
  if (filters.entityId !== undefined) {
    const sorted = rows.orderBy(descending(...order.map((column) => `f.${column}`), 'f.place'));
    return pageOf(sorted.select('f.place as first_place', 'f.place as last_place'), page);
  }
  // `upto` is the number of entries from the newest one to the last one of the row. Postgres stops summing at the end of the page.
  const backwards = order.map((column) => `${e[column]} desc`).join(', ');
  const summed = rows.select(
    e.size,
    db.raw(`sum(${e.size}) over (order by ${backwards} rows unbounded preceding) as upto`),
  );
  const offset = offsetOf(page);
  return db(summed.as('s'))
    .select(
      ...key,
      db.raw('greatest(1, upto - ?::bigint)::integer as first_place', [offset + page.size - 1]),
      db.raw('least(size, upto - ?::bigint)::integer as last_place', [offset]),
    )
    .where('upto', '>', offset)
    .orderBy(descending(...order))
    .limit(page.size);
}

/** The entries of a page, newest first, with the alias `e` and the column `entity_id`. */
export const pageOfEntries = (
  tenantId: string,
  filters: LogFilters,
  page: PageRequest,
  columns: readonly string[],
): Knex.QueryBuilder =>
  db
    .withMaterialized('chosen', chosenRows(tenantId, filters, page))
    .select(...columns, db.raw(`coalesce(${e.entity_ids}[place], ${e.entity_id}) as entity_id`))
    .from('chosen')
    .joinRaw(rowOfEach('chosen'))
    .joinRaw('cross join lateral generate_series(last_place, first_place, -1) place')
    .orderBy(descending(...order.map((column) => `chosen.${column}`), 'place'));
