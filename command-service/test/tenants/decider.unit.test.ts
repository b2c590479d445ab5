import {
  TenantCreated,
  TenantDeleted,
  TenantPlanChanged,
  TenantUpdated,
  TenantWebhookSecretRotated,
} from '@token-vault/contracts';
import type { SealedValue } from '@token-vault/crypto';
import { describe, it } from 'vitest';
import { fact } from '../../src/aggregates/decider.ts';
import { tenantDecider, type TenantCommand } from '../../src/tenants/decider.ts';
import { specify, tenantId as id } from '../aggregates/specification.ts';

const { given } = specify(tenantDecider);
const sealed = (text: string) =>
  `sv1.00000000-0000-4000-8000-0000000000c1.${text.padEnd(50, 'A')}` as SealedValue;
const create = { kind: 'create', id, name: 'Acme', plan: 'standard', webhookSecret: sealed('one') } as const;
const identity = { tenant_id: id };
const created = fact(TenantCreated, { ...identity, name: 'Acme', plan: 'standard', settings: {} });
const secret = fact(TenantWebhookSecretRotated, { ...identity, secret: sealed('one') });
const set = fact(TenantUpdated, { ...identity, name: 'Acme', settings: { deduplicate_tokens: 'true' } });
const deleted = fact(TenantDeleted, identity);

describe('a tenant', () => {
  it('is created with a webhook secret', () => given().when(create).then(created, secret));
  it('is created once', () => given(created, secret).when(create).thenNothing());
  it('does not come back', () => given(created, deleted).when(create).thenNothing());

  it('replaces its settings by those given', () =>
    given(created, set)
      .when({ kind: 'update', name: 'New', settings: { a: 'b' } })
      .then(fact(TenantUpdated, { ...identity, name: 'New', settings: { a: 'b' } })));
  it('keeps its settings when none are given', () =>
    given(created, set)
      .when({ kind: 'update', name: 'New', settings: undefined })
      .then(fact(TenantUpdated, { ...identity, name: 'New', settings: { deduplicate_tokens: 'true' } })));

  it('changes its plan', () =>
    given(created)
      .when({ kind: 'set-plan', plan: 'enterprise' })
      .then(fact(TenantPlanChanged, { ...identity, plan: 'enterprise' })));
  it('does nothing to have the plan it has', () =>
    given(created).when({ kind: 'set-plan', plan: 'standard' }).thenNothing());
  it('rotates its webhook secret', () =>
    given(created, secret)
      .when({ kind: 'rotate-webhook-secret', secret: sealed('two') })
      .then(fact(TenantWebhookSecretRotated, { ...identity, secret: sealed('two') })));
  it('is deleted', () => given(created).when({ kind: 'delete' }).then(deleted));

  const commands: TenantCommand[] = [
    { kind: 'update', name: 'x', settings: undefined },
    { kind: 'set-plan', plan: 'enterprise' },
    { kind: 'rotate-webhook-secret', secret: sealed('two') },
    { kind: 'delete' },
  ];
  it.each(commands)('that is absent or deleted is not found: $kind', (command) => {
    given().when(command).thenRefused({ code: 'not_found' });
    given(created, deleted).when(command).thenRefused({ code: 'not_found' });
  });
});
