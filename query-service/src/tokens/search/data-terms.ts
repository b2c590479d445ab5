import { dataHash, type Searched } from './conditions.ts';
import type { SearchQuery } from './query.ts';

/** The values that `valueOf` gives for the terms of a query. Negated terms are included. */
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

type DataTerm = Extract<SearchQuery, { kind: 'data' }>;

/**
 * The query without its negated terms over data. It finds the tokens of the query and those that these terms exclude: a token that
 * `NOT data:x` excludes has `x`, and the answer reveals that.
 */
export const withoutNegatedData = (query: SearchQuery): SearchQuery =>
  without(query, (_term, isNegated) => isNegated);

/** The query with terms that match no token, whatever the read model has. @param hashes the keyed hashes of the terms */
export const withoutTerms = (
  query: SearchQuery,
  hashes: ReadonlySet<string>,
  searched: Pick<Searched, 'hashes'>,
): SearchQuery => without(query, ({ value }) => hashes.has(dataHash(value, searched)));

function without(
  query: SearchQuery,
  isLeftOut: (term: DataTerm, isNegated: boolean) => boolean,
  isNegated = false,
): SearchQuery {
  switch (query.kind) {
    case 'all-of':
      return { kind: query.kind, of: query.of.map((each) => without(each, isLeftOut, isNegated)) };
    case 'any-of': {
      // The other terms can still become one set of ids (`idsOf`).
      const left = query.of
        .map((each) => without(each, isLeftOut, isNegated))
        .filter((each) => each !== nothing);
      return left.length === 0 ? nothing : { kind: query.kind, of: left };
    }
    case 'not':
      return { kind: 'not', of: without(query.of, isLeftOut, !isNegated) };
    case 'data':
      return isLeftOut(query, isNegated) ? nothing : query;
    default:
      return query;
  }
}
