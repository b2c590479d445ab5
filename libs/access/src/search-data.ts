import type { AccessRule } from '@token-vault/contracts';
import { decidingRule, type AccessibleToken } from './decide.ts';
import type { Grants, Principal } from './principal.ts';
import { clauseOf, type VisibilityClause } from './visibility.ts';

/** The tokens that search terms over `data` may match. The rules apply in order; the first one that covers a token decides. */
export type SearchableData =
  | { readonly kind: 'all' }
  | {
      readonly kind: 'first-of';
      readonly rules: readonly { readonly clause: VisibilityClause; readonly isSearchable: boolean }[];
    }
  | { readonly kind: 'all-of'; readonly parts: readonly SearchableData[] };

type IsSearchable = (rule: AccessRule) => boolean;

/** rules.md §6: `"search_data": false` allows searches over data only for tokens that the rule reveals. */
const isSearchableBy =
  ({ shownAtMost }: Principal): IsSearchable =>
  ({ search_data: allowed, transform, break_glass: isGlass }) =>
    allowed !== false || (shownAtMost === undefined && transform === 'reveal' && isGlass !== true);

/** The tokens whose data this caller may search. */
export function searchableData(principal: Principal): SearchableData {
  const isSearchable = isSearchableBy(principal);
  const own = searchableBy(principal, isSearchable);
  if (!principal.authorizer) return own;
  const lent = searchableBy(principal.authorizer, isSearchable);
  if (own.kind === 'all') return lent;
  return lent.kind === 'all' ? own : { kind: 'all-of', parts: [own, lent] };
}

/** A token that no rule covers is either invisible to the caller, or visible by the plain permission, which allows searches. */
function searchableBy({ rules }: Grants, isSearchable: IsSearchable): SearchableData {
  const deciding = rules
    .filter(({ permissions }) => permissions.includes('token:search'))
    .map((rule) => ({ clause: clauseOf(rule), isSearchable: isSearchable(rule) }));
  return deciding.every((rule) => rule.isSearchable)
    ? { kind: 'all' }
    : { kind: 'first-of', rules: deciding };
}

/** Decides for one token, which the caller may see by `token:search`, the same as `searchableData`. */
export function isDataSearchable(principal: Principal, token: AccessibleToken): boolean {
  const isSearchable = isSearchableBy(principal);
  const allows = (grants: Grants): boolean => {
    const rule = decidingRule(grants, 'token:search', token);
    return rule === undefined || isSearchable(rule);
  };
  return allows(principal) && (!principal.authorizer || allows(principal.authorizer));
}
