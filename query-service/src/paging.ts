import type { Pagination } from '@token-vault/contracts';
import type { Reader } from './fair-reads.ts';
import { compile, nothing, sql, type Sql } from './sql.ts';

/** Which page of a list: `page` from 1, `size` from 0, which asks for the pagination object only. */
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
 * Counts, then fetches; a page beyond the last costs no fetch however far beyond it lies.
 * `total_pages` is 0 when there are no items or no page size.
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

/** The one number a statement gives as `total`: as float8, which is exact up to 2^53 and needs no parsing of text. */
export async function totalOf(reader: Reader, statement: Sql): Promise<number> {
  const { rows } = await reader.query<{ readonly total: number }>(compile(statement));
  // Less than none: the projection went on between the two counts of a difference.
  return Math.max(rows[0]?.total ?? 0, 0);
}
