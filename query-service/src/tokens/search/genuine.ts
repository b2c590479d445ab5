import { hashDomains } from '@token-vault/contracts';
import { isErased, type KeyRing } from '@token-vault/crypto';
import { evaluateSearchIndexes, ExpressionEvaluationError, type Expressions } from '@token-vault/expressions';
import type { RequestContext } from '@token-vault/operations';
import { openLastingData } from '@token-vault/tokens';
import type { Reader } from '../../fair-reads.ts';
import { compile, db, sql } from '../../statements.ts';
import { hasIdOf, idsByIndex, isVisible } from '../filters.ts';
import type { TokenScope } from '../queries.ts';
import { t, tokenColumns, type TokenRow } from '../row.ts';
import { requireSignedRows } from '../signed-rows.ts';
import { Turns } from '../turns.ts';
import { searchCondition, type Searched } from './conditions.ts';
import { dataTermsOf, withoutNegatedData } from './data-terms.ts';
import type { SearchQuery } from './query.ts';

/** A token that a term over data matches, by the index of the read model. */
export interface Match {
  /** The keyed hash of the term. */
  readonly hash: string;
  readonly row: TokenRow;
}

/**
 * One match of each term over data, also of negated ones, among the tokens about whose data the answer reveals something. One is enough:
 * whoever reads the database finds the hash of its value there, and so all tokens with this value.
 */
export async function findMatches(
  reader: Reader,
  { tenantId, now, visibility }: TokenScope,
  query: SearchQuery,
  searched: Searched,
): Promise<Match[]> {
  const token = db(t.source)
    .select(db.raw(tokenColumns.join(', ')))
    .where(isVisible(tenantId, now, visibility))
    .where(searchCondition(withoutNegatedData(query), searched))
    .where(hasIdOf(idsByIndex(sql('term.hash'), searched)))
    .limit(1);
  const text = `select term.hash, ${tokenColumns.join(', ')} from unnest(?::text[]) as term(hash) cross join lateral ? t`;
  const matches = compile(sql(text, [...dataTermsOf(query, searched)], token));
  const { rows } = await reader.query<TokenRow & { readonly hash: string }>(matches);
  return rows.map(({ hash, ...row }) => ({ hash, row }));
}

export interface MatchDependencies {
  readonly keyRing: Pick<KeyRing, 'open' | 'hashes'>;
  readonly expressions: Expressions;
}

/**
 * Checks that each matched token is as it was written and has the value of the term: nobody signs the hashes beside a token, and a total
 * counts rows that no page shows (ADR 20). Gives the ids of tokens that do not have the value: a hash beside them was planted, their expression gives
 * another value by now (it may depend on the time), or they were deleted meanwhile. For the caller they match nothing.
 * @throws AlteredRecordError for a row that was changed
 */
export async function findNotGenuine(
  { keyRing, expressions }: MatchDependencies,
  matches: readonly Match[],
  { principal: { tenant } }: Pick<RequestContext, 'principal'>,
): Promise<string[]> {
  const rows = [...new Map(matches.map(({ row }) => [row.id, row])).values()];
  await requireSignedRows(keyRing, tenant, rows);
  const turns = new Turns();
  const hashes = await keyRing.hashes(tenant.id);

  async function hashesOf(row: TokenRow): Promise<readonly string[]> {
    const indexes = row.search_indexes === null ? [] : (JSON.parse(row.search_indexes) as string[]);
    const data = await openLastingData(keyRing, { tenantId: tenant.id, tokenId: row.id }, row);
    await turns.take(row.data.length);
    // Each token has the budget that it had when it was written.
    const values = await evaluateSearchIndexes(expressions.of(row, tenant.id), indexes, data.expose());
    return values.map((value) => hashes.blindIndex(hashDomains.searchIndex, value));
  }

  const known = new Map<string, readonly string[]>();
  const learn = async (row: TokenRow) => {
    try {
      known.set(row.id, await hashesOf(row));
    } catch (error) {
      if (!isErased(error) && !(error instanceof ExpressionEvaluationError)) throw error;
    }
  };
  await Promise.all(rows.map(learn));
  return matches.filter(({ hash, row }) => !known.get(row.id)?.includes(hash)).map(({ row }) => row.id);
}
