import type { AccessRuleCondition } from '@token-vault/contracts';
import type { SearchableData, TokenVisibility, VisibilityClause } from '@token-vault/access';
import { allOf, anyOf, sql, type Sql } from '../sql.ts';

/**
 * The tokens that a caller may see, as a condition on `t` (rm_tokens.token). It states in SQL the rule that
 * `decideTokenAccess` applies to one token.
 */
export function visibilityCondition(visibility: TokenVisibility): Sql {
  switch (visibility.kind) {
    case 'all':
      return sql`true`;
    // The caller is refused before there is a query.
    case 'needs-reason':
    case 'none':
      return sql`false`;
    case 'any-of':
      return anyOf(visibility.clauses.map(clauseCondition));
    case 'all-of':
      return allOf(visibility.parts.map(visibilityCondition));
  }
}

function clauseCondition(clause: VisibilityClause): Sql {
  if (clause.kind === 'container') return sql`starts_with(t.container, ${clause.prefix})`;
  // A rule without conditions would otherwise grant access to all tokens.
  return clause.conditions.length === 0 ? sql`false` : allOf(clause.conditions.map(conditionHolds));
}

function conditionHolds({ attribute, operator, value }: AccessRuleCondition): Sql {
  const column = attribute === 'id' ? sql`t.id` : sql`t.container`;
  // Containers are stored in lower case, ids as they were given.
  const wanted = attribute === 'id' ? value : value.toLowerCase();
  return operator === 'equals' ? sql`${column} = ${wanted}` : sql`starts_with(${column}, ${wanted})`;
}

/** The tokens that terms over `data` may match, as a condition on `t`. The first rule that covers a token decides. */
function searchableCondition(searchable: SearchableData): Sql {
  switch (searchable.kind) {
    case 'all':
      return sql`true`;
    case 'all-of':
      return allOf(searchable.parts.map(searchableCondition));
    case 'first-of':
      return searchable.rules.reduceRight<Sql>(
        (rest, { clause, isSearchable }) =>
          sql`case when ${clauseCondition(clause)} then ${isSearchable ? sql`true` : sql`false`} else ${rest} end`,
        sql`true`,
      );
  }
}

/** The tokens of the tenant that exist at `now` and are visible to the caller. */
export const isThere = (tenantId: string, now: Date, visibility: TokenVisibility): Sql =>
  sql`t.tenant_id = ${tenantId}::uuid and (t.expires_at is null or t.expires_at > ${now})
    and ${visibilityCondition(visibility)}`;

/**
 * Ids of the tenant's tokens with a metadata entry. The value is compared without case. The index holds a hash of the
 * value, because a value may be longer than an index row.
 */
export function idsByMetadata(tenantId: string, key: string, value: string): Sql {
  const folded = value.toLowerCase();
  return sql`select m.token_id from rm_tokens.token_metadata m
    where m.tenant_id = ${tenantId}::uuid and m.key = ${key}
      and md5(m.value) = md5(${folded}::text) and m.value = ${folded}`;
}

/**
 * Ids of the tenant's tokens with a search index of this keyed hash, among the tokens whose data the caller may
 * search.
 */
export function idsByIndex(tenantId: string, hash: string, searchable: SearchableData): Sql {
  const found = sql`select s.token_id from rm_tokens.token_search_index s
    where s.tenant_id = ${tenantId}::uuid and s.hash = ${hash}`;
  if (searchable.kind === 'all') return found;
  return sql`${found} and exists (select from rm_tokens.token t
    where t.tenant_id = s.tenant_id and t.id = s.token_id and ${searchableCondition(searchable)})`;
}

export const hasIdOf = (ids: Sql): Sql => sql`t.id in (${ids})`;
