import type { AccessRule, TokenPermission, Transform } from '@token-vault/contracts';
import { decideTokenAccess, decidingRule } from './decide.ts';
import type { AccessibleToken } from './prepared-rules.ts';
import type { Principal } from './principal.ts';

type ShownAs = Transform | 'none';

export interface ShownAccess {
  /** `none`: the access is refused. */
  readonly transform: ShownAs;
  /** The transform with a reason; absent where a reason makes no difference. */
  readonly with_reason?: ShownAs;
}

export interface ExplainedAccess extends ShownAccess {
  readonly by: 'rule' | 'permissions' | 'nothing';
  readonly rule?: AccessRule;
}

/** The decision about a token, with a reason (docs/reference/reasons.md) and without. */
export function shownAccess(
  principal: Principal,
  permission: TokenPermission,
  token: AccessibleToken,
): ShownAccess {
  const { reason: _reason, ...without } = principal;
  const shown = (caller: Principal): ShownAs => {
    const access = decideTokenAccess(caller, permission, token);
    return access.isGranted ? access.transform : 'none';
  };
  const [transform, withReason] = [shown(without), shown({ ...without, reason: 'a reason' })];
  return { transform, ...(withReason === transform ? {} : { with_reason: withReason }) };
}

/** The decision about a token, with the rule or permission that makes it. It comes from the functions that also decide requests. */
export function explainTokenAccess(
  principal: Principal,
  permission: TokenPermission,
  token: AccessibleToken,
): ExplainedAccess {
  const shown = shownAccess(principal, permission, token);
  const rule = decidingRule(principal, permission, token);
  if (rule) return { ...shown, by: 'rule', rule };
  return { ...shown, by: principal.permissions.includes(permission) ? 'permissions' : 'nothing' };
}
