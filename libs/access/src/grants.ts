import {
  isPermissionAllowed,
  isTokenPermission,
  type AccessRule,
  type ApplicationType,
  type FieldErrors,
  type Permission,
} from '@token-vault/contracts';
import type { Grants, Principal } from './principal.ts';
import { readingPermissions } from './reason.ts';

type Errors = Record<string, string[]>;

function report(errors: Errors, field: string, message: string): void {
  (errors[field] ??= []).push(message);
}

function checkPermissions(
  errors: Errors,
  field: string,
  granted: readonly Permission[],
  type: ApplicationType,
): void {
  granted.forEach((permission, index) => {
    if (!isPermissionAllowed(permission, type)) {
      report(errors, `${field}.${index}`, `${permission} is not allowed for a ${type} application`);
    }
  });
}

function checkScope(
  errors: Errors,
  field: string,
  rule: AccessRule,
  scope: 'container' | 'conditions',
): void {
  const other = scope === 'container' ? 'conditions' : 'container';
  const given = rule[scope];
  if (given === undefined || given.length === 0) report(errors, `${field}.${scope}`, 'is required');
  if (rule[other] !== undefined) report(errors, `${field}.${other}`, `cannot be used here; use ${scope}`);
}

/** Such a rule reveals by the permissions that read, and masks by all others (docs/reference/reasons.md). */
function checkBreakGlass(errors: Errors, field: string, rule: AccessRule): void {
  if (rule.break_glass !== true) return;
  if (rule.transform !== 'reveal') report(errors, field, 'needs the transform reveal');
  if (!readingPermissions.some((permission) => rule.permissions.includes(permission)))
    report(errors, field, `needs one of the permissions ${readingPermissions.join(', ')}`);
}

function checkRules(
  errors: Errors,
  rules: readonly AccessRule[],
  type: ApplicationType,
  scope: 'container' | 'conditions',
): void {
  rules.forEach((rule, index) => {
    const field = `rules.${index}`;
    checkScope(errors, field, rule, scope);
    checkPermissions(errors, `${field}.permissions`, rule.permissions, type);
    checkBreakGlass(errors, `${field}.break_glass`, rule);
    if (rule.permissions.some((permission) => !isTokenPermission(permission))) {
      report(errors, `${field}.permissions`, 'only token permissions can be granted by a rule');
    }
  });
}

/**
 * Checks the permissions and rules that an application is given (rules.md §6). Returns the faulty fields; an empty object when all are
 * allowed.
 */
export function checkGrants(type: ApplicationType, grants: Grants): FieldErrors {
  const errors: Errors = {};
  checkPermissions(errors, 'permissions', grants.permissions, type);
  if (type === 'management') {
    if (grants.rules.length > 0) report(errors, 'rules', 'a management application cannot have rules');
  } else {
    checkRules(errors, grants.rules, type, 'container');
  }
  return errors;
}

/** Checks the grants that an application gives to a session: token permissions only, a subset of its own (rules.md §7). */
export function checkSessionGrants(authorizer: Principal, grants: Grants): FieldErrors {
  const errors: Errors = {};
  const own = new Set([...authorizer.permissions, ...authorizer.rules.flatMap((rule) => rule.permissions)]);
  const checkOwn = (field: string, granted: readonly Permission[]) => {
    granted.forEach((permission, index) => {
      if (!own.has(permission)) {
        report(errors, `${field}.${index}`, `${permission} is not held by the authorizing application`);
      }
    });
  };
  checkPermissions(errors, 'permissions', grants.permissions, authorizer.applicationType);
  checkRules(errors, grants.rules, authorizer.applicationType, 'conditions');
  checkOwn('permissions', grants.permissions);
  grants.rules.forEach((rule, index) => checkOwn(`rules.${index}.permissions`, rule.permissions));
  return errors;
}
