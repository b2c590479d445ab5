import type { AccessRule, AccessRuleCondition, TokenPermission } from '@token-vault/contracts';
import type { Grants, Principal } from './principal.ts';

/** One way to be visible: within a container, or by all of a rule's conditions. */
export type VisibilityClause =
  | { readonly kind: 'container'; readonly prefix: string }
  | { readonly kind: 'conditions'; readonly conditions: readonly AccessRuleCondition[] };

/** Which tokens of the tenant a caller may see; a list is cut by this inside the database, never afterwards. */
export type TokenVisibility =
  | { readonly kind: 'all' }
  | { readonly kind: 'none' }
  | { readonly kind: 'any-of'; readonly clauses: readonly VisibilityClause[] }
  | { readonly kind: 'all-of'; readonly parts: readonly TokenVisibility[] };

/** Says of all tokens what `decideTokenAccess` says of one. */
export function tokenVisibility(principal: Principal, permission: TokenPermission): TokenVisibility {
  const own = visibilityBy(principal, permission);
  if (!principal.authorizer || own.kind === 'none') return own;
  const lent = visibilityBy(principal.authorizer, permission);
  if (lent.kind === 'all') return own;
  return own.kind === 'all' || lent.kind === 'none' ? lent : { kind: 'all-of', parts: [own, lent] };
}

/** The tokens that a rule covers. */
export const clauseOf = ({ container, conditions = [] }: AccessRule): VisibilityClause =>
  container === undefined
    ? { kind: 'conditions', conditions }
    : { kind: 'container', prefix: container.toLowerCase() };

function visibilityBy(principal: Grants, permission: TokenPermission): TokenVisibility {
  if (principal.permissions.includes(permission)) return { kind: 'all' };
  const clauses = principal.rules.filter((rule) => rule.permissions.includes(permission)).map(clauseOf);
  if (clauses.length === 0) return { kind: 'none' };
  const isEverything = clauses.some((clause) => clause.kind === 'container' && clause.prefix === '/');
  return isEverything ? { kind: 'all' } : { kind: 'any-of', clauses };
}
