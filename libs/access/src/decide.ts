import type { AccessRule, Permission, TokenPermission, Transform } from '@token-vault/contracts';
import { mayUseTokens } from './console.ts';
import { firstCovering, type AccessibleToken } from './prepared-rules.ts';
import { sidesOf, type Grants, type Principal } from './principal.ts';
import { decisionOf, holdsBack, readingPermissions } from './reason.ts';
import { showsPlaintext, type TokenAccess } from './token-access.ts';
import { lesserOf } from './transforms.ts';
import type { TokenVisibility } from './visibility.ts';

const reasonNeeded = 'A rule requires a reason for this access: send it in the header SVC-REASON.';

/** The text of the refusal; `otherwise` where a reason would not help. */
export const refusalText = (
  access: Extract<TokenAccess, { isGranted: false }> | Extract<TokenVisibility, { kind: 'needs-reason' }>,
  otherwise: string,
): string => ('kind' in access || access.needsReason ? reasonNeeded : otherwise);

/** How a token's data is shown by a transform: `mask` on a token without a mask becomes `redact` (interface.md, Access rule transforms). */
export const shownBy = (transform: Transform, hasMask: boolean): Transform =>
  transform === 'mask' && !hasMask ? 'redact' : transform;

const denied: TokenAccess = { isGranted: false };

/** The first rule by priority that grants the permission and covers the token; undefined when the plain permissions decide. */
export const decidingRule = (
  { rules }: Grants,
  permission: TokenPermission,
  token: AccessibleToken,
): AccessRule | undefined => firstCovering(rules, permission, token);

function decideAlone(
  grants: Grants,
  permission: TokenPermission,
  token: AccessibleToken,
  reason: string | undefined,
): TokenAccess {
  const rule = decidingRule(grants, permission, token);
  if (rule) return decisionOf(rule, permission, reason);
  if (!grants.permissions.includes(permission)) return denied;
  return { isGranted: true, transform: permission === 'token:use' ? 'reveal' : 'mask' };
}

/**
 * Decides whether the caller has the permission on this token, and how the token's data is shown. The first rule by priority that covers
 * the token and grants the permission decides. Plain permissions come last, as one rule on `/` that masks, or reveals for token:use
 * (rules.md §6). A session also needs the right of its authorizer; of the two transforms the one that shows less applies. A caller of the
 * console is shown no plaintext by any rule.
 */
export function decideTokenAccess(
  principal: Principal,
  permission: TokenPermission,
  token: AccessibleToken,
): TokenAccess {
  const { shownAtMost } = principal;
  const access = decideByRights(principal, permission, token);
  if (!access.isGranted || shownAtMost === undefined) return access;
  if (permission === 'token:use' && !mayUseTokens(principal)) return denied;
  return { isGranted: true, transform: lesserOf(access.transform, shownAtMost) };
}

/**
 * A change by `token:update` can set a mask by which others see the data, so it is decided as by a rule that masks while the data is held
 * back from the caller (docs/reference/reasons.md).
 */
function decideByRights(
  principal: Principal,
  permission: TokenPermission,
  token: AccessibleToken,
): TokenAccess {
  const access = decideByAllSides(principal, permission, token);
  if (permission !== 'token:update' || !access.isGranted || access.transform !== 'reveal') return access;
  return isHeldBack(principal, token) ? { isGranted: true, transform: 'mask' } : access;
}

/**
 * A rule with `reason` or `break_glass` decides how the caller reads the token, and it is not shown its plaintext in another way, also without a
 * reason: a mask shows the data without one.
 */
function isHeldBack({ reason, ...principal }: Principal, token: AccessibleToken): boolean {
  const isHeldBackBy = (side: Grants): boolean =>
    readingPermissions.some((each) => holdsBack(decidingRule(side, each, token), reason));
  if (!sidesOf(principal).some(isHeldBackBy)) return false;
  return !(['token:read', 'token:search'] as const).some((each) =>
    showsPlaintext(decideByAllSides(principal, each, token)),
  );
}

function decideByAllSides(
  principal: Principal,
  permission: TokenPermission,
  token: AccessibleToken,
): TokenAccess {
  const { authorizer, reason } = principal;
  const own = decideAlone(principal, permission, token, reason);
  if (!own.isGranted || !authorizer) return own;
  const lent = decideAlone(authorizer, permission, token, reason);
  if (!lent.isGranted) return lent;
  const transform = lesserOf(own.transform, lent.transform);
  const isBreakGlass = transform === 'reveal' && (own.isBreakGlass ?? lent.isBreakGlass);
  return { isGranted: true, transform, ...(isBreakGlass ? { isBreakGlass } : {}) };
}

const holdsAtAll = (grants: Grants, permission: Permission): boolean =>
  grants.permissions.includes(permission) ||
  grants.rules.some((rule) => rule.permissions.includes(permission));

/** Whether the caller has this permission on any entity. For tokens, `decideTokenAccess` then decides by the container. */
export const can = (principal: Principal, permission: Permission): boolean =>
  sidesOf(principal).every((side) => holdsAtAll(side, permission));
