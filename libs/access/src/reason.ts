import type { AccessRule, TokenPermission } from '@token-vault/contracts';
import { sidesOf, type Principal } from './principal.ts';
import type { TokenAccess } from './token-access.ts';
import { lesserOf } from './transforms.ts';

/** The permissions by which a caller, or code or a server on its behalf, gets data that is in the vault. */
export const readingPermissions = ['token:read', 'token:search', 'token:use'] as const;
const reading: ReadonlySet<TokenPermission> = new Set(readingPermissions);

/** A token is used in plaintext, so without a reason a rule with `break_glass` does not let it be used at all. */
const needsReason = (rule: AccessRule, permission: TokenPermission): boolean =>
  reading.has(permission) &&
  (rule.reason === 'required' || (rule.break_glass === true && permission === 'token:use'));

/**
 * The transform that the deciding rule grants (docs/reference/reasons.md). A rule with `break_glass` reveals data only to the permissions
 * that read, and only with a reason; otherwise it masks. A change without a required reason is decided as by a rule that masks. Otherwise the
 * caller could change the mask, and so show data that it may see only with a reason: to others, or to itself by another rule.
 */
export function decisionOf(
  rule: AccessRule,
  permission: TokenPermission,
  reason: string | undefined,
): TokenAccess {
  if (reason === undefined && needsReason(rule, permission)) return { isGranted: false, needsReason: true };
  if (rule.break_glass !== true) {
    const isBlind = permission === 'token:update' && rule.reason === 'required' && reason === undefined;
    return { isGranted: true, transform: isBlind ? lesserOf(rule.transform, 'mask') : rule.transform };
  }
  return reading.has(permission) && reason !== undefined
    ? { isGranted: true, transform: 'reveal', isBreakGlass: true }
    : { isGranted: true, transform: 'mask' };
}

/** Whether a list or a search needs a reason: a rule by which its tokens may be shown requires one. */
export function listNeedsReason(principal: Principal, permission: TokenPermission): boolean {
  if (principal.reason !== undefined) return false;
  return sidesOf(principal).some(({ rules }) =>
    rules.some((rule) => rule.permissions.includes(permission) && needsReason(rule, permission)),
  );
}

/** By the rule, data is shown in plaintext only with a reason, which this request does not have, or with a webhook. */
export const holdsBack = (rule: AccessRule | undefined, reason: string | undefined): boolean =>
  rule?.break_glass === true || (rule?.reason === 'required' && reason === undefined);

/** The rule reveals its tokens, whether a reason is given or not, and without a webhook. */
export const revealsPlainly = (rule: AccessRule): boolean =>
  rule.transform === 'reveal' && rule.break_glass !== true && rule.reason === undefined;
