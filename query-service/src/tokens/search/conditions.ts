import { hashDomains, type Secret } from '@token-vault/contracts';
import type { TenantHashes } from '@token-vault/crypto';
import type { Knex } from 'knex';
import { allOf, anyOf, isWithin, sql, type Sql } from '../../statements.ts';
import { hasIdOf, idsByIndex, idsByMetadata, type IndexScope } from '../filters.ts';
import { t } from '../row.ts';
import type { SearchQuery, Stretch, TextField } from './query.ts';

/** The tenant and the rights of a search. Values become parameters or, for data, keyed hashes of the tenant. */
export interface Searched extends IndexScope {
  readonly hashes: Pick<TenantHashes, 'blindIndex'>;
}

/** A query as a condition on `t`. */
export function searchCondition(query: SearchQuery, searched: Searched): Sql {
  switch (query.kind) {
    case 'everything':
      return sql('true');
    case 'all-of':
      return allOf(query.of.map((each) => searchCondition(each, searched)));
    case 'any-of': {
      const ids = idsOf(query, searched);
      return ids ? hasIdOf(ids) : anyOf(query.of.map((each) => searchCondition(each, searched)));
    }
    case 'not':
      // An unset column does not equal the value, so the negation holds for it.
      return sql('(?) is not true', searchCondition(query.of, searched));
    case 'data':
      return hasIdOf(idsByData(query.value, searched));
    case 'text':
      return textCondition(query.field, query.value);
    case 'metadata':
      return hasIdOf(idsByMetadata(searched.tenantId, query.key, query.value));
    case 'moment':
      return momentCondition(query.field === 'created_at' ? t.created_at : t.modified_at, query.within);
  }
}

function textCondition(field: TextField, value: string): Sql {
  switch (field) {
    case 'id':
      return sql(`${t.id} = ?`, value);
    case 'type':
      return sql(`${t.type} = ?`, value.toLowerCase());
    case 'fingerprint':
      return sql(`${t.fingerprint} = ?`, value);
    case 'created_by':
      return sql(`${t.created_by} = ?`, value.toLowerCase());
    case 'modified_by':
      return sql(`${t.modified_by} = ?`, value.toLowerCase());
    case 'container':
      return containerCondition(value.toLowerCase());
  }
}

export const dataHash = (value: Secret<string>, { hashes }: Pick<Searched, 'hashes'>): string =>
  hashes.blindIndex(hashDomains.searchIndex, value);

const idsByData = (value: Secret<string>, searched: Searched): Knex.QueryBuilder =>
  idsByIndex(dataHash(value, searched), searched);

/**
 * The ids that a query finds, when indexes alone give them. Undefined otherwise. Alternatives of this kind become one
 * set of ids: as separate conditions, each would be evaluated for every token of the tenant.
 */
function idsOf(query: SearchQuery, searched: Searched): Knex.QueryBuilder | Sql | undefined {
  if (query.kind === 'metadata') return idsByMetadata(searched.tenantId, query.key, query.value);
  if (query.kind === 'data') return idsByData(query.value, searched);
  if (query.kind === 'text' && query.field === 'id') return sql('select ?::text', query.value);
  if (query.kind !== 'any-of') return undefined;
  const sets = query.of.map((each) => idsOf(each, searched));
  return sets.every((set) => set !== undefined)
    ? sql(sets.map(() => '(?)').join(' union '), ...sets)
    : undefined;
}

/** `/a/*` matches `/a/` and every container below it. */
const containerCondition = (path: string): Sql =>
  path.endsWith('/*')
    ? sql(`starts_with(${t.container}, ?)`, path.slice(0, -1))
    : sql(`${t.container} = ?`, path);

const momentCondition = (column: string, within: Stretch): Sql =>
  allOf([sql(`${column} is not null`), ...isWithin(column, within)]);
