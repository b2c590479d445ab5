import type { TokenPermission } from '@token-vault/contracts';
import { decideTokenAccess } from './decide.ts';
import type { AccessibleToken } from './prepared-rules.ts';
import { sidesOf, type Grants, type Principal } from './principal.ts';
import { revealsPlainly } from './reason.ts';
import type { TokenAccess } from './token-access.ts';
import { byExposure } from './transforms.ts';

const exposureOf = (access: TokenAccess): number =>
  access.isGranted ? byExposure.indexOf(access.transform) : -1;

const showing: readonly TokenPermission[] = ['token:read', 'token:search', 'token:use'];

/**
 * Whether a move of the token lets the caller see more of it, by any operation that shows data (rules.md §5). The reason of the request is
 * ignored, so that no move takes a token out of the reach of a rule that requires a reason.
 */
export function seesMoreAfterMove(
  { reason: _reason, ...principal }: Principal,
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
    if (!revealsPlainly(rule)) return false;
    if (rule.container === '/') return true;
  }
  return false;
}

/** Whether the caller can read every token of the tenant in plaintext by this permission. A client of a proxy can read none. */
export const seesEverything = (principal: Principal, permission: TokenPermission): boolean =>
  principal.isProxyClient !== true &&
  principal.shownAtMost === undefined &&
  sidesOf(principal).every((side) => revealsEverything(side, permission));
