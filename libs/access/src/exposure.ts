import type { TokenPermission } from '@token-vault/contracts';
import { decideTokenAccess } from './decide.ts';
import type { AccessibleToken } from './prepared-rules.ts';
import { sidesOf, type Grants, type Principal } from './principal.ts';
import { readingPermissions, revealsPlainly } from './reason.ts';
import { isDataSearchable } from './search-data.ts';
import type { TokenAccess } from './token-access.ts';
import { byExposure } from './transforms.ts';

/** A reveal by `break_glass` is less than another one, because a webhook reports it. */
function exposureOf(access: TokenAccess): number {
  if (!access.isGranted) return -1;
  return byExposure.indexOf(access.transform) - (access.isBreakGlass ? 0.5 : 0);
}

/** How much the caller may see of the token, by each operation that shows data, without and with a reason; and whether it may search the data. */
function exposuresOf(
  { reason: _reason, ...principal }: Principal,
  token: AccessibleToken,
): readonly number[] {
  // The caller may give a reason in one request and none in another.
  return [principal, { ...principal, reason: 'any' }].flatMap((caller) => {
    const mayFind = decideTokenAccess(caller, 'token:search', token).isGranted;
    return [
      ...readingPermissions.map((permission) => exposureOf(decideTokenAccess(caller, permission, token))),
      mayFind && isDataSearchable(caller, token) ? 1 : 0,
    ];
  });
}

/**
 * Whether a move of the token lets the caller see more of it, in this request or in another one (rules.md §5). So the reason of this request does
 * not decide.
 */
export function seesMoreAfterMove(
  principal: Principal,
  before: AccessibleToken,
  after: AccessibleToken,
): boolean {
  const exposuresBefore = exposuresOf(principal, before);
  return exposuresOf(principal, after).some((exposure, index) => exposure > (exposuresBefore[index] ?? -1));
}

/** Whether the caller sees the data of the token by this permission in each request, also in one without a reason. */
export function seesWithoutReason(
  { reason: _reason, ...principal }: Principal,
  permission: TokenPermission,
  token: AccessibleToken,
): boolean {
  const access = decideTokenAccess(principal, permission, token);
  return access.isGranted && access.transform === 'reveal' && !access.isBreakGlass;
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
