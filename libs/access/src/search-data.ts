import type { AccessRule } from '@token-vault/contracts';
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

/** rules.md §6: a rule with `"search_data": false` allows searches over data only for tokens that the rule reveals. */
export function searchableData(principal: Principal): SearchableData {
  const isRevealed = (rule: AccessRule) =>
    principal.shownAtMost === undefined && rule.transform === 'reveal' && rule.break_glass !== true;
  const own = searchableBy(principal, isRevealed);
  if (!principal.authorizer) return own;
  const lent = searchableBy(principal.authorizer, isRevealed);
  if (own.kind === 'all') return lent;
  return lent.kind === 'all' ? own : { kind: 'all-of', parts: [own, lent] };
}

/** A token that no rule covers is either invisible to the caller, or visible by the plain permission, which allows searches. */
function searchableBy({ rules }: Grants, isRevealed: (rule: AccessRule) => boolean): SearchableData {
  const deciding = rules
    .filter(({ permissions }) => permissions.includes('token:search'))
    .map((rule) => ({
      clause: clauseOf(rule),
      isSearchable: rule.search_data !== false || isRevealed(rule),
    }));
  return deciding.every(({ isSearchable }) => isSearchable)
    ? { kind: 'all' }
    : { kind: 'first-of', rules: deciding };
}
