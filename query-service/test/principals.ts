import { randomUUID } from 'node:crypto';
import type { Principal } from '@token-vault/access';

/** A private application of the tenant. By default it may read and search. */
export function principalOf(tenantId: string, grants: Partial<Principal> = {}): Principal {
  const applicationId = grants.applicationId ?? randomUUID();
  return {
    tenant: { id: tenantId, plan: 'standard', settings: {} },
    actor: { kind: 'application', id: applicationId },
    applicationType: 'private',
    permissions: grants.rules ? [] : ['token:read', 'token:search'],
    rules: [],
    ...grants,
    applicationId,
  };
}

export const ruleOn = (
  container: string,
  transform: 'redact' | 'mask' | 'reveal',
  priority = 1,
): Principal['rules'][number] => ({
  description: undefined,
  conditions: undefined,
  priority,
  container,
  transform,
  permissions: ['token:read', 'token:search'],
});

export const managerOf = (tenantId: string): Principal =>
  principalOf(tenantId, {
    applicationType: 'management',
    permissions: ['application:read', 'log:read', 'reactor:read', 'tenant:read', 'report:read'],
  });
