import { dataHash, type Searched } from './conditions.ts';
import type { SearchQuery } from './query.ts';

/** What `valueOf` gives for the terms of a query. Negated terms are included. */
function valuesOf(
  query: SearchQuery,
  valueOf: (term: SearchQuery) => string | undefined,
): ReadonlySet<string> {
  switch (query.kind) {
    case 'all-of':
    case 'any-of':
      return new Set(query.of.flatMap((each) => [...valuesOf(each, valueOf)]));
    case 'not':
      return valuesOf(query.of, valueOf);
    default: {
      const value = valueOf(query);
      return new Set(value === undefined ? [] : [value]);
    }
  }
}

/** The keyed hashes of all terms over `data` in a query: each is a guess of the data, wherever it stands in the query. */
export const dataTermsOf = (query: SearchQuery, searched: Searched): ReadonlySet<string> =>
  valuesOf(query, (term) => (term.kind === 'data' ? dataHash(term.value, searched) : undefined));

/** The values of all terms over `fingerprint`. */
export const fingerprintsOf = (query: SearchQuery): ReadonlySet<string> =>
  valuesOf(query, (term) => (term.kind === 'text' && term.field === 'fingerprint' ? term.value : undefined));

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
    case 'data':
      return isNegated ? nothing : query;
    default:
      return query;
  }
}
