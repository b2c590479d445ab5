import { aliased } from '@token-vault/contracts';
import type { Reader } from '../../fair-reads.ts';
import { compile, db, sql } from '../../statements.ts';
import { hasIdOf, idsByIndex, isVisible } from '../filters.ts';
import type { TokenScope } from '../queries.ts';
import { t, tokenColumns, type TokenRow } from '../row.ts';
import { searchCondition, type Searched } from './conditions.ts';
import { dataTermsOf, withoutNegatedData } from './data-terms.ts';
import type { SearchQuery } from './query.ts';

/** A token that a term over data matches, by the search index of the read model. */
export interface Match extends TokenRow {
  /** The keyed hash of the term. */
  readonly hash: string;
  /** All keyed hashes of the token in the read model. */
  readonly index_hashes: readonly string[];
  /** Null for a token that a release wrote which did not sign them. */
  readonly index_signature: string | null;
}

export interface MatchScope {
  readonly reader: Reader;
  readonly scope: TokenScope;
  readonly searched: Searched;
}

const s = aliased('tokens', 'token_search_index', 's');
/**
 * Data is long, and is opened only where the hashes are not signed. Its first and last characters identify it in the statements of a token
 * (`identityOf`).
 */
const data = `case when ${t.index_signature} is null then ${t.data} else left(${t.data}, 57) || right(${t.data}, 22) end as data`;
const columns = tokenColumns.map((column) => (column === t.data ? data : column));

/**
 * One match of each term over data, also of a negated one, among the tokens about whose data the answer reveals something. Tokens whose
 * search indexes are signed come first.
 */
export async function findMatches(
  { reader, scope: { tenantId, now, visibility }, searched }: MatchScope,
  query: SearchQuery,
): Promise<Match[]> {
  const hashesOfToken = sql(
    `array(select ${s.hash} from ${s.source} where ${s.tenant_id} = ${t.tenant_id} and ${s.token_id} = ${t.id})`,
  );
  const token = db(t.source)
    .select(db.raw([...columns, t.index_signature].join(', ')), db.raw('? as index_hashes', [hashesOfToken]))
    .where(isVisible(tenantId, now, visibility))
    .where(searchCondition(withoutNegatedData(query), searched))
    .where(hasIdOf(idsByIndex(sql('term.hash'), searched)))
    .where(sql(`(${t.index_signature} is null) = turn.is_unsigned`))
    .limit(1);
  // The second turn is evaluated only when the first gives no token.
  const text = `select term.hash, t.* from unnest(?::text[]) as term(hash) cross join lateral (
    select t.* from (values (false), (true)) as turn(is_unsigned) cross join lateral ? t limit 1) t`;
  const { rows } = await reader.query<Match>(compile(sql(text, [...dataTermsOf(query, searched)], token)));
  return rows;
}
