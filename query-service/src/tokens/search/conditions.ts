import type { SearchableData } from '@token-vault/access';
import { hashDomains } from '@token-vault/contracts';
import type { TenantHashes } from '@token-vault/crypto';
import { allOf, anyOf, sql, type Sql } from '../../sql.ts';
import { hasIdOf, idsByIndex, idsByMetadata } from '../filters.ts';
import type { SearchQuery, Stretch, TextField } from './query.ts';

/** Whose tokens are searched. Values become parameters or, for data, keyed hashes of the tenant. */
export interface Searched {
  readonly tenantId: string;
  readonly hashes: Pick<TenantHashes, 'blindIndex'>;
  /** Where terms over `data` may match. */
  readonly searchable: SearchableData;
}

/** A query as a condition on `t` (rm_tokens.token). */
export function searchCondition(query: SearchQuery, searched: Searched): Sql {
  switch (query.kind) {
    case 'everything':
      return sql`true`;
    case 'all-of':
      return allOf(query.of.map((each) => searchCondition(each, searched)));
    case 'any-of': {
      const ids = idsOf(query, searched);
      return ids ? hasIdOf(ids) : anyOf(query.of.map((each) => searchCondition(each, searched)));
    }
    case 'not':
      // What is unset does not equal, so its negation holds.
      return sql`(${searchCondition(query.of, searched)}) is not true`;
    case 'text':
      return textCondition(query.field, query.value, searched);
    case 'metadata':
      return hasIdOf(idsByMetadata(searched.tenantId, query.key, query.value));
    case 'moment':
      return momentCondition(
        query.field === 'created_at' ? sql`t.created_at` : sql`t.modified_at`,
        query.within,
      );
  }
}

function textCondition(field: TextField, value: string, searched: Searched): Sql {
  switch (field) {
    case 'id':
      return sql`t.id = ${value}`;
    case 'data':
      return hasIdOf(idsByData(value, searched));
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
  }
}

export const dataHash = (value: string, { hashes }: Pick<Searched, 'hashes'>): string =>
  hashes.blindIndex(hashDomains.searchIndex, value);

const idsByData = (value: string, searched: Searched): Sql =>
  idsByIndex(searched.tenantId, dataHash(value, searched), searched.searchable);

/**
 * The ids a query finds, where indexes give them by themselves; undefined otherwise. Alternatives of such are one set of
 * ids: as conditions of their own, each would be tried on every token of the tenant.
 */
function idsOf(query: SearchQuery, searched: Searched): Sql | undefined {
  if (query.kind === 'metadata') return idsByMetadata(searched.tenantId, query.key, query.value);
  if (query.kind === 'text' && query.field === 'data') return idsByData(query.value, searched);
  if (query.kind === 'text' && query.field === 'id') return sql`select ${query.value}::text`;
  if (query.kind !== 'any-of') return undefined;
  const sets = query.of.map((each) => idsOf(each, searched));
  return sets.every((set) => set !== undefined)
    ? sets.reduce((union, set) => sql`${union} union ${set}`)
    : undefined;
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
