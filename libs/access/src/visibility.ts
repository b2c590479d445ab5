import type { AccessRule, AccessRuleCondition, TokenPermission } from '@token-vault/contracts';
import { mayUseTokens } from './console.ts';
import type { Grants, Principal } from './principal.ts';
import { listNeedsReason } from './reason.ts';

/** One condition that makes tokens visible: a container, or all conditions of a rule. */
export type VisibilityClause =
  | { readonly kind: 'container'; readonly prefix: string }
  | { readonly kind: 'conditions'; readonly conditions: readonly AccessRuleCondition[] };

/** The tokens of the tenant that a caller may see. The database filters lists by it; rows are never removed afterwards. */
export type TokenVisibility =
  | { readonly kind: 'all' }
  | { readonly kind: 'none' }
  /** A rule requires a reason, and the caller gives none: the whole request is refused (docs/reference/reasons.md). */
  | { readonly kind: 'needs-reason' }
  | { readonly kind: 'any-of'; readonly clauses: readonly VisibilityClause[] }
  | { readonly kind: 'all-of'; readonly parts: readonly TokenVisibility[] };

/** Decides for all tokens the same as `decideTokenAccess` decides for one. */
export function tokenVisibility(principal: Principal, permission: TokenPermission): TokenVisibility {
  if (permission === 'token:use' && !mayUseTokens(principal)) return { kind: 'none' };
  if (listNeedsReason(principal, permission)) return { kind: 'needs-reason' };
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
