import type { Pagination } from '@token-vault/contracts';
import type { Reader } from './fair-reads.ts';
import { compile, nothing, sql, type Sql } from './sql.ts';

/** The page of a list. `page` counts from 1. `size` may be 0, which asks for the pagination object only. */
export interface PageRequest {
  readonly page: number;
  readonly size: number;
}

export interface Page<Item> {
  readonly pagination: Pagination;
  readonly data: readonly Item[];
}

const offsetOf = ({ page, size }: PageRequest): number => (page - 1) * size;

export const limits = (request: PageRequest): Sql =>
  sql`limit ${request.size} ${request.page > 1 ? sql`offset ${offsetOf(request)}` : nothing}`;

/**
 * Counts the items, then fetches the page. A page beyond the last one is not fetched at all. `total_pages` is 0 when
 * there are no items or `size` is 0.
 */
export async function fetchPage<Item>(
  request: PageRequest,
  count: () => Promise<number>,
  fetch: () => Promise<readonly Item[]>,
): Promise<Page<Item>> {
  const total = await count();
  const isBeyond = request.size === 0 || offsetOf(request) >= total;
  return {
    pagination: {
      total_items: total,
      page_number: request.page,
      page_size: request.size,
      total_pages: request.size === 0 ? 0 : Math.ceil(total / request.size),
    },
    data: isBeyond ? [] : await fetch(),
  };
}

/**
 * The column `total` of a statement's only row. It is float8, which is exact up to 2^53 and needs no parsing of text.
 */
export async function totalOf(reader: Reader, statement: Sql): Promise<number> {
  const { rows } = await reader.query<{ readonly total: number }>(compile(statement));
  // The difference of two counts is negative when the projection advanced between them.
  return Math.max(rows[0]?.total ?? 0, 0);
}
