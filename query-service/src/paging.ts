import type { Pagination } from '@token-vault/contracts';
import type { Reader } from './fair-reads.ts';
import type { Knex } from 'knex';
import type { QueryResultRow } from 'pg';
import { compile, db, descending, sql, type Sql } from './statements.ts';

/** The page of a list. `page` counts from 1. `size` may be 0, which asks for the pagination object only. */
export interface PageRequest {
  readonly page: number;
  readonly size: number;
}

export interface Page<Item> {
  readonly pagination: Pagination;
  readonly data: readonly Item[];
}

/** The number of items before the page. */
export const offsetOf = ({ page, size }: PageRequest): number => (page - 1) * size;

/** The rows of the page. */
export const pageOf = (query: Knex.QueryBuilder, request: PageRequest): Knex.QueryBuilder =>
  query.limit(request.size).offset(offsetOf(request));

/**
 * Counts the items, then fetches the page. A page beyond the last one is not fetched at all. `total_pages` is 0 when
 * there are no items or `size` is 0.
 */
export async function fetchPage<Item>(
  request: PageRequest,
  count: () => Promise<number>,
  fetch: () => Promise<readonly Item[]>,
): Promise<Page<Item>> {
  const counted = await count();
  const isBeyond = request.size === 0 || offsetOf(request) >= counted;
  const data = isBeyond ? [] : await fetch();
  // Rows may have come since they were counted.
  const total = data.length === 0 ? counted : Math.max(counted, offsetOf(request) + data.length);
  return { pagination: paginationOf(total, request), data };
}

export const paginationOf = (total: number, { page, size }: PageRequest): Pagination => ({
  total_items: total,
  page_number: page,
  page_size: size,
  total_pages: size === 0 ? 0 : Math.ceil(total / size),
});

/** The rows of a list. */
interface Listed {
  readonly reader: Reader;
  /** The rows that are counted. Without columns. */
  readonly chosen: Knex.QueryBuilder;
  readonly of: { readonly seq: string; readonly id: string };
  /** Adds the columns, and the tables that only they need. */
  readonly withColumns: (query: Knex.QueryBuilder) => Knex.QueryBuilder;
}

/** A page of the chosen rows, newest first. */
export function listNewest<Row extends QueryResultRow>(
  { reader, chosen, of, withColumns }: Listed,
  page: PageRequest,
): Promise<Page<Row>> {
  return fetchPage(
    page,
    () => countOf(reader, chosen),
    async () => {
      const sorted = withColumns(chosen.clone()).orderBy([...descending(of.seq), of.id]);
      return (await reader.query<Row>(compile(pageOf(sorted, page)))).rows;
    },
  );
}

/** As a double the total is exact up to 2^53, and the driver gives it as a number instead of text. */
const asTotal = '::float8 as total';

/** The number of rows of the query. */
export const countOf = (reader: Reader, query: Knex.QueryBuilder): Promise<number> =>
  totalOf(reader, query.clone().select(db.raw(`count(*)${asTotal}`)));

/** The value of an SQL expression with a number. */
export const valueOf = (reader: Reader, expression: Sql): Promise<number> =>
  totalOf(reader, sql(`select (?)${asTotal}`, expression));

async function totalOf(reader: Reader, statement: Knex.QueryBuilder | Sql): Promise<number> {
  const { rows } = await reader.query<{ readonly total: number }>(compile(statement));
  // The difference of two counts is negative when the projection advanced between them.
  return Math.max(rows[0]?.total ?? 0, 0);
}
