import type { TenantHashes } from '@token-vault/crypto';
import { allOf, anyOf, sql, type Sql } from '../../sql.ts';
import { hasMetadata } from '../filters.ts';
import type { SearchQuery, Stretch, TextField } from './query.ts';

/** The domain of the keyed hashes of evaluated search indexes, as commands make them. */
const indexField = 'search_index';

/** A query as a condition on `t` (rm_tokens.token). Values become parameters or, for data, keyed hashes of the tenant. */
export function searchCondition(query: SearchQuery, hashes: Pick<TenantHashes, 'blindIndex'>): Sql {
  switch (query.kind) {
    case 'everything':
      return sql`true`;
    case 'all-of':
      return allOf(query.of.map((each) => searchCondition(each, hashes)));
    case 'any-of':
      return anyOf(query.of.map((each) => searchCondition(each, hashes)));
    case 'not':
      // What is unset does not equal, so its negation holds.
      return sql`(${searchCondition(query.of, hashes)}) is not true`;
    case 'text':
      return textCondition(query.field, query.value, hashes);
    case 'metadata':
      return hasMetadata(query.key, query.value);
    case 'moment':
      return momentCondition(
        query.field === 'created_at' ? sql`t.created_at` : sql`t.modified_at`,
        query.within,
      );
  }
}

function textCondition(field: TextField, value: string, hashes: Pick<TenantHashes, 'blindIndex'>): Sql {
  switch (field) {
    case 'id':
      return sql`t.id = ${value}`;
    case 'type':
      return sql`t.type = ${value.toLowerCase()}`;
    case 'fingerprint':
      return sql`t.fingerprint = ${value}`;
    case 'created_by':
      return sql`t.created_by = ${value.toLowerCase()}`;
    case 'modified_by':
      return sql`t.modified_by = ${value.toLowerCase()}`;
    case 'container':
      return containerCondition(value.toLowerCase());
    case 'data':
      return sql`exists (
        select from rm_tokens.token_search_index s
        where s.tenant_id = t.tenant_id and s.token_id = t.id and s.hash = ${hashes.blindIndex(indexField, value)})`;
  }
}

/** `/a/*` is for `/a/` and everything below. */
function containerCondition(path: string): Sql {
  return path.endsWith('/*')
    ? sql`starts_with(t.container, ${path.slice(0, -1)})`
    : sql`t.container = ${path}`;
}

const momentCondition = (column: Sql, { from, before }: Stretch): Sql =>
  allOf([
    sql`${column} is not null`,
    ...(from ? [sql`${column} >= ${from}`] : []),
    ...(before ? [sql`${column} < ${before}`] : []),
  ]);
