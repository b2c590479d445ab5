import type { Reader } from '../../fair-reads.ts';
import { allOf, compile, db, sql } from '../../statements.ts';
import { hasIdOf, idsByIndex, isThere } from '../filters.ts';
import type { TokenScope } from '../queries.ts';
import { t } from '../row.ts';
import { dataHash, type Searched } from './conditions.ts';
import type { SearchQuery } from './query.ts';

/**
 * The keyed hashes of all terms over `data` in a query. Negated terms are included: each term is a guess of the data,
 * wherever it stands in the query.
 */
export function dataTermsOf(query: SearchQuery, searched: Searched): ReadonlySet<string> {
  switch (query.kind) {
    case 'all-of':
    case 'any-of':
      return new Set(query.of.flatMap((each) => [...dataTermsOf(each, searched)]));
    case 'not':
      return dataTermsOf(query.of, searched);
    case 'text':
      return new Set(query.field === 'data' ? [dataHash(query.value, searched)] : []);
    default:
      return new Set();
  }
}

/**
 * The number of terms that match a token that the caller may find. It costs at most one index lookup and one token
 * for each term.
 */
export async function countFound(
  reader: Reader,
  { tenantId, now, visibility }: TokenScope,
  terms: ReadonlySet<string>,
  { searchable }: Searched,
): Promise<number> {
  const isFound = (hash: string) => {
    const condition = allOf([
      isThere(tenantId, now, visibility),
      hasIdOf(idsByIndex(tenantId, hash, searchable)),
    ]);
    return sql('(exists ?)::integer', db(t.source).select(t.id).where(condition));
  };
  const found = [...terms].map(isFound);
  const sum = sql(['0', ...found.map(() => '?')].join(' + '), ...found);
  const { rows } = await reader.query<{ found: number }>(compile(sql('select ? as found', sum)));
  return rows[0]?.found ?? 0;
}
