import type { TokenPermission } from '@token-vault/contracts';
import { decideTokenAccess, type AccessibleToken, type TokenAccess } from './decide.ts';
import type { Grants, Principal } from './principal.ts';
import { byExposure } from './transforms.ts';

const exposureOf = (access: TokenAccess): number =>
  access.isGranted ? byExposure.indexOf(access.transform) : -1;

const showing: readonly TokenPermission[] = ['token:read', 'token:search', 'token:use'];

/** Whether the caller would see more of the token, by any operation that shows data, when it is moved (rules.md §5). */
export function seesMoreAfterMove(
  principal: Principal,
  before: AccessibleToken,
  after: AccessibleToken,
): boolean {
  return showing.some(
    (permission) =>
      exposureOf(decideTokenAccess(principal, permission, after)) >
      exposureOf(decideTokenAccess(principal, permission, before)),
  );
}

function revealsEverything(grants: Grants, permission: TokenPermission): boolean {
  for (const rule of grants.rules) {
    if (!rule.permissions.includes(permission)) continue;
    if (rule.transform !== 'reveal') return false;
    if (rule.container === '/') return true;
  }
  return false;
}

/** Whether the caller sees every token of the tenant in plaintext by this permission; then nothing is hidden from it. */
export function seesEverything(principal: Principal, permission: TokenPermission): boolean {
  const { authorizer } = principal;
  return (
    revealsEverything(principal, permission) && (!authorizer || revealsEverything(authorizer, permission))
  );
}
