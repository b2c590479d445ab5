import type { Grants, Principal } from './principal.ts';
import { clauseOf, type VisibilityClause } from './visibility.ts';

/** The tokens that terms over `data` may match; by rules in their order, the first that covers a token decides. */
export type SearchableData =
  | { readonly kind: 'all' }
  | {
      readonly kind: 'first-of';
      readonly rules: readonly { readonly clause: VisibilityClause; readonly isSearchable: boolean }[];
    }
  | { readonly kind: 'all-of'; readonly parts: readonly SearchableData[] };

/** rules.md §6: a rule with `"search_data": false` lets no data be searched that it does not reveal. */
export function searchableData(principal: Principal): SearchableData {
  const own = searchableBy(principal);
  if (!principal.authorizer) return own;
  const lent = searchableBy(principal.authorizer);
  if (own.kind === 'all') return lent;
  return lent.kind === 'all' ? own : { kind: 'all-of', parts: [own, lent] };
}

/** What no rule covers is not visible to the caller, or by its plain permission, which forbids nothing. */
function searchableBy({ rules }: Grants): SearchableData {
  const deciding = rules
    .filter(({ permissions }) => permissions.includes('token:search'))
    .map((rule) => ({
      clause: clauseOf(rule),
      isSearchable: rule.search_data !== false || rule.transform === 'reveal',
    }));
  return deciding.every(({ isSearchable }) => isSearchable)
    ? { kind: 'all' }
    : { kind: 'first-of', rules: deciding };
}
