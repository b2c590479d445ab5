import { maxSeenTokens, type TokenIdentity } from '@token-vault/contracts';
import type { MadeOf } from '@token-vault/operations';
import type { Reader } from '../../fair-reads.ts';
import { compile, db, sql, type Sql } from '../../statements.ts';
import { hasIdOf, idsByIndex, isVisible, searchableCondition } from '../filters.ts';
import type { TokenScope } from '../queries.ts';
import { t } from '../row.ts';
import { searchCondition, type Searched } from './conditions.ts';
import { dataTermsOf, withoutNegatedData } from './data-terms.ts';
import type { SearchQuery } from './query.ts';

/** The facts about data that the answer to a search reveals, whatever page it shows. */
export interface Told {
  /** The number of terms over data that match a token of the query. The other terms are misses. */
  readonly foundTerms: number;
  /** The tokens about whose data the answer reveals something; at most one more than code may be shown. */
  readonly tokens: readonly TokenIdentity[];
}

interface ToldRow {
  readonly found: number;
  readonly told: readonly { readonly id: string; readonly created_at: string }[];
}

/**
 * A term counts as found when it matches a token of the answer. So the limit of misses reveals no more than the answer: a caller cannot
 * find out by `data:x AND id:none` whether a token has `x`. A term that is only negated never counts as found: otherwise the statement would
 * test each token that the query finds. The cost is one statement, which finds one token for each term and at most 1,001 others.
 */
export async function findTold(
  reader: Reader,
  { tenantId, now, visibility }: TokenScope,
  query: SearchQuery,
  searched: Searched,
): Promise<Told> {
  const tokens = (of: SearchQuery, condition: Sql) =>
    db(t.source)
      .select(t.id)
      .where(isVisible(tenantId, now, visibility))
      .where(searchCondition(of, searched))
      .where(condition);
  const { searchable } = searched;
  const unnegated = withoutNegatedData(query);
  const hasTerm = tokens(query, hasIdOf(idsByIndex(sql('term.hash'), searched)));
  const terms = sql(
    '(select count(*)::integer from unnest(?::text[]) as term(hash) where exists ?)',
    [...dataTermsOf(unnegated, searched)],
    hasTerm,
  );
  const told = tokens(unnegated, searchableCondition(searchable))
    .select(t.created_at)
    .limit(maxSeenTokens + 1);
  const text = "select ? as found, (select coalesce(json_agg(told), '[]') from ? as told) as told";
  const { rows } = await reader.query<ToldRow>(compile(sql(text, terms, told)));
  const [row] = rows;
  return {
    foundTerms: row?.found ?? 0,
    tokens: (row?.told ?? []).map(({ id, created_at: createdAt }) => ({
      id,
      createdAt: new Date(createdAt).toISOString(),
    })),
  };
}

/** The tokens whose data went into the answer. A token that is also on the page is named there too, with the transform of its data. */
export const madeOfTold = ({ tokens }: Told): MadeOf => ({
  tokens: tokens.map((token) => ({
    ...token,
    by: 'seen',
    shown: { permission: 'token:search', transform: 'redact', isTold: true },
  })),
  ...(tokens.length > maxSeenTokens ? { isUnrepeatable: true } : {}),
});
