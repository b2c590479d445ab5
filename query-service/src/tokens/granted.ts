import { decideTokenAccess, refusalText, tokenVisibility, type TokenAccess } from '@token-vault/access';
import { entityTypeOfToken, ForbiddenError, type TokenPermission } from '@token-vault/contracts';
import type { RequestContext } from '@token-vault/operations';
import type { TokenScope } from './queries.ts';
import type { TokenRow } from './row.ts';
import type { GrantedToken } from './show.ts';

/** @throws ForbiddenError when no rule grants the caller this token */
export function requireReadable(context: RequestContext, row: TokenRow): GrantedToken {
  const access = accessTo(context, 'token:read', row);
  if (access.isGranted) return { ...access, row };
  const detail = refusalText(access, 'No access rule lets this caller read tokens of this container.');
  throw new ForbiddenError(detail, { type: entityTypeOfToken(row.type), id: row.id });
}

/** The transform of a row that the query selected. The query applies the same rules, so a rule always grants it. */
export function grantedOf(context: RequestContext, permission: TokenPermission, row: TokenRow): GrantedToken {
  const access = accessTo(context, permission, row);
  if (!access.isGranted) throw new Error('a token is visible by the query but not by the rules');
  return { ...access, row };
}

export const accessTo = (
  { principal }: RequestContext,
  permission: TokenPermission,
  { id, container }: Pick<TokenRow, 'id' | 'container'>,
): TokenAccess => decideTokenAccess(principal, permission, { id, containers: [container] });

/** @throws ForbiddenError when a rule requires a reason that the caller does not give */
export function scopeOf({ principal, now }: RequestContext, permission: TokenPermission): TokenScope {
  const visibility = tokenVisibility(principal, permission);
  if (visibility.kind === 'needs-reason') throw new ForbiddenError(refusalText(visibility, ''));
  return { tenantId: principal.tenant.id, visibility, now };
}
