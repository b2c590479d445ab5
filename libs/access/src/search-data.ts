import { decideTokenAccess, decidingRule } from './decide.ts';
import type { AccessibleToken } from './prepared-rules.ts';
import { sidesOf, type Grants, type Principal } from './principal.ts';
import { showsPlaintext } from './token-access.ts';
import { clauseOf, type VisibilityClause } from './visibility.ts';

/** The limits that a rule with `token:search` sets to terms over `data`. */
interface SearchRule {
  readonly clause: VisibilityClause;
  /** The rule does not say `"search_data": false`. */
  readonly isAllowed: boolean;
  readonly isRevealed: boolean;
}

/**
 * The tokens that search terms over `data` may match: those that every side allows, and those that every side reveals. The sides are the
 * caller and, for a session, its authorizer. Of each side the first rule that covers a token decides. Without such a rule the plain
 * permission decides: it allows and does not reveal.
 */
export type SearchableData =
  | { readonly kind: 'all' }
  | { readonly kind: 'by-rules'; readonly sides: readonly (readonly SearchRule[])[] };

/** The tokens whose data this caller may search (rules.md §6). */
export function searchableData(principal: Principal): SearchableData {
  const mayReveal = principal.shownAtMost === undefined;
  const searchRules = ({ rules }: Grants): SearchRule[] =>
    rules
      .filter(({ permissions }) => permissions.includes('token:search'))
      .map((rule) => ({
        clause: clauseOf(rule),
        isAllowed: rule.search_data !== false,
        isRevealed: mayReveal && rule.transform === 'reveal' && rule.break_glass !== true,
      }));
  const sides = sidesOf(principal).map(searchRules);
  return sides.flat().every(({ isAllowed }) => isAllowed) ? { kind: 'all' } : { kind: 'by-rules', sides };
}

/** Decides for one token, which the caller may see by `token:search`, the same as `searchableData`. */
export function isDataSearchable(principal: Principal, token: AccessibleToken): boolean {
  const rules = sidesOf(principal).map((side) => decidingRule(side, 'token:search', token));
  if (rules.every((rule) => rule?.search_data !== false)) return true;
  return showsPlaintext(decideTokenAccess(principal, 'token:search', token));
}
