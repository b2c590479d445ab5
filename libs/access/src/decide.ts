import type {
  AccessRule,
  AccessRuleCondition,
  Permission,
  TokenPermission,
  Transform,
} from '@token-vault/contracts';
import type { Grants, Principal } from './principal.ts';
import { lesserOf } from './transforms.ts';

/** What a decision needs to know of a token. */
export interface AccessibleToken {
  readonly id: string;
  readonly containers: readonly string[];
}

export type TokenAccess =
  { readonly isGranted: true; readonly transform: Transform } | { readonly isGranted: false };

/** What a transform shows of a token's data: masked without a mask is redacted (interface.md, Access rule transforms). */
export const shownBy = (transform: Transform, hasMask: boolean): Transform =>
  transform === 'mask' && !hasMask ? 'redact' : transform;

const denied: TokenAccess = { isGranted: false };

/** A grant on a container covers its sub-containers; case never matters (rules.md §3). */
function covers(container: string, token: AccessibleToken): boolean {
  const prefix = container.toLowerCase();
  return token.containers.some((path) => path.toLowerCase().startsWith(prefix));
}

function holds(condition: AccessRuleCondition, token: AccessibleToken): boolean {
  const isContainer = condition.attribute === 'container';
  const wanted = isContainer ? condition.value.toLowerCase() : condition.value;
  const values = isContainer ? token.containers.map((path) => path.toLowerCase()) : [token.id];
  return values.some((value) =>
    condition.operator === 'equals' ? value === wanted : value.startsWith(wanted),
  );
}

function applies(rule: AccessRule, token: AccessibleToken): boolean {
  if (rule.container !== undefined) return covers(rule.container, token);
  const { conditions = [] } = rule;
  return conditions.length > 0 && conditions.every((condition) => holds(condition, token));
}

function decide(grants: Grants, permission: TokenPermission, token: AccessibleToken): TokenAccess {
  const rule = grants.rules.find(
    (candidate) => candidate.permissions.includes(permission) && applies(candidate, token),
  );
  if (rule) return { isGranted: true, transform: rule.transform };
  if (!grants.permissions.includes(permission)) return denied;
  return { isGranted: true, transform: permission === 'token:use' ? 'reveal' : 'mask' };
}

/**
 * May the caller do this to this token, and how is its data shown? By priority, the first rule that covers the token and
 * grants the permission; plain permissions come last, as one rule on `/` that masks (reveals for token:use)
 * (rules.md §6). A session needs its authorizer's right too, and is shown the lesser of both.
 */
export function decideTokenAccess(
  principal: Principal,
  permission: TokenPermission,
  token: AccessibleToken,
): TokenAccess {
  const own = decide(principal, permission, token);
  if (!own.isGranted || !principal.authorizer) return own;
  const lent = decide(principal.authorizer, permission, token);
  if (!lent.isGranted) return denied;
  return lesserOf(own.transform, lent.transform) === own.transform ? own : lent;
}

const holdsAtAll = (grants: Grants, permission: Permission): boolean =>
  grants.permissions.includes(permission) ||
  grants.rules.some((rule) => rule.permissions.includes(permission));

/** Could the caller use this permission at all? For tokens the container decides afterwards. */
export function can(principal: Principal, permission: Permission): boolean {
  const { authorizer } = principal;
  return holdsAtAll(principal, permission) && (!authorizer || holdsAtAll(authorizer, permission));
}
