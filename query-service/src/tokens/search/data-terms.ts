import { dataHash, type Searched } from './conditions.ts';
import type { SearchQuery, TextField } from './query.ts';

/** The values of all terms over a field in a query. Negated terms are included. */
export function termsOf(query: SearchQuery, field: TextField): ReadonlySet<string> {
  switch (query.kind) {
    case 'all-of':
    case 'any-of':
      return new Set(query.of.flatMap((each) => [...termsOf(each, field)]));
    case 'not':
      return termsOf(query.of, field);
    case 'text':
      return new Set(query.field === field ? [query.value] : []);
    default:
      return new Set();
  }
}

/** The keyed hashes of all terms over `data` in a query: each is a guess of the data, wherever it stands in the query. */
export const dataTermsOf = (query: SearchQuery, searched: Searched): ReadonlySet<string> =>
  new Set([...termsOf(query, 'data')].map((value) => dataHash(value, searched)));

const nothing: SearchQuery = { kind: 'not', of: { kind: 'everything' } };

/**
 * The query without its negated terms over data. It finds the tokens of the query and those that these terms exclude: a token that
 * `NOT data:x` excludes has `x`, and the answer reveals that.
 */
export function withoutNegatedData(query: SearchQuery, isNegated = false): SearchQuery {
  switch (query.kind) {
    case 'all-of':
    case 'any-of':
      return { kind: query.kind, of: query.of.map((each) => withoutNegatedData(each, isNegated)) };
    case 'not':
      return { kind: 'not', of: withoutNegatedData(query.of, !isNegated) };
    case 'text':
      return isNegated && query.field === 'data' ? nothing : query;
    default:
      return query;
  }
}
