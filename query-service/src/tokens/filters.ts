import { aliased, type AccessRuleCondition } from '@token-vault/contracts';
import type { SearchableData, TokenVisibility, VisibilityClause } from '@token-vault/access';
import type { Knex } from 'knex';
import { allOf, anyOf, db, sql, type Sql } from '../statements.ts';
import { t } from './row.ts';

const m = aliased('tokens', 'token_metadata', 'm');
const s = aliased('tokens', 'token_search_index', 's');

/**
 * The tokens that a caller may see, as a condition on `t`. It states in SQL the rule that `decideTokenAccess` applies
 * to one token.
 */
export function visibilityCondition(visibility: TokenVisibility): Sql {
  switch (visibility.kind) {
    case 'all':
      return sql('true');
    // The caller is refused before there is a query.
    case 'needs-reason':
    case 'none':
      return sql('false');
    case 'any-of':
      return anyOf(visibility.clauses.map(clauseCondition));
    case 'all-of':
      return allOf(visibility.parts.map(visibilityCondition));
  }
}

function clauseCondition(clause: VisibilityClause): Sql {
  if (clause.kind === 'container') return sql(`starts_with(${t.container}, ?)`, clause.prefix);
  // A rule without conditions would otherwise grant access to all tokens.
  return clause.conditions.length === 0 ? sql('false') : allOf(clause.conditions.map(conditionHolds));
}

function conditionHolds({ attribute, operator, value }: AccessRuleCondition): Sql {
  const column = attribute === 'id' ? t.id : t.container;
  // Containers are stored in lower case, ids as they were given.
  const wanted = attribute === 'id' ? value : value.toLowerCase();
  return sql(operator === 'equals' ? `${column} = ?` : `starts_with(${column}, ?)`, wanted);
}

/** The tokens that terms over `data` may match, as a condition on `t`. It states in SQL the rule of `isDataSearchable`. */
export function searchableCondition(searchable: SearchableData): Sql {
  if (searchable.kind === 'all') return sql('true');
  const onAllSides = (property: 'isAllowed' | 'isRevealed', withoutRule: boolean): Sql =>
    allOf(
      searchable.sides.map((rules) =>
        rules.reduceRight<Sql>(
          (rest, rule) =>
            sql(`case when ? then ${rule[property]} else ? end`, clauseCondition(rule.clause), rest),
          sql(String(withoutRule)),
        ),
      ),
    );
  return anyOf([onAllSides('isAllowed', true), onAllSides('isRevealed', false)]);
}

/** The tokens of the tenant that exist at `now` and are visible to the caller. */
export const isVisible = (tenantId: string, now: Date, visibility: TokenVisibility): Sql =>
  sql(
    `${t.tenant_id} = ? and (${t.expires_at} is null or ${t.expires_at} > ?) and ?`,
    tenantId,
    now,
    visibilityCondition(visibility),
  );

/**
 * Ids of the tenant's tokens with a metadata entry. The value is compared without case. The index holds a hash of the
 * value, because a value may be longer than an index row.
 */
export function idsByMetadata(tenantId: string, key: string, value: string): Knex.QueryBuilder {
  const folded = value.toLowerCase();
  return db(m.source)
    .select(m.token_id)
    .where(m.tenant_id, tenantId)
    .where(m.key, key)
    .whereRaw(`md5(${m.value}) = md5(?::text)`, [folded])
    .where(m.value, folded);
}

/** The tokens that a term over data may match. */
export interface IndexScope {
  readonly tenantId: string;
  readonly searchable: SearchableData;
}

/**
 * Ids of the tenant's tokens with a search index of this keyed hash, among the tokens whose data the caller may
 * search.
 */
export function idsByIndex(hash: string | Sql, { tenantId, searchable }: IndexScope): Knex.QueryBuilder {
  const found = db(s.source).select(s.token_id).where(s.tenant_id, tenantId).where(s.hash, hash);
  if (searchable.kind === 'all') return found;
  const token = db(t.source)
    .select(t.id)
    .whereRaw(`${t.tenant_id} = ${s.tenant_id} and ${t.id} = ${s.token_id}`)
    .where(searchableCondition(searchable));
  return found.whereExists(token);
}

export const hasIdOf = (ids: Knex.QueryBuilder | Sql): Sql => sql(`${t.id} in (?)`, ids);
