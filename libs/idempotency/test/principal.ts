import type { Principal } from '@token-vault/access';

export const tenantId = '11111111-1111-4111-8111-111111111111';

export function principalWith(change: Partial<Principal> = {}): Principal {
  return {
    tenant: { id: tenantId, plan: 'standard', settings: {} },
    actor: { kind: 'application', id: '22222222-2222-4222-8222-222222222222' },
    applicationId: '22222222-2222-4222-8222-222222222222',
    applicationType: 'private',
    permissions: ['token:create', 'token:read', 'token:update'],
    rules: [],
    ...change,
  };
}
