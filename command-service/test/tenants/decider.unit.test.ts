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
const rotate = (text: string, overlap: number, time = '00:00:00') =>
  ({
    kind: 'rotate-webhook-secret',
    secret: sealed(text),
    isFirstOfKey: false,
    overlap,
    now: new Date(`2030-01-01T${time}Z`),
  }) as const;
const earlier = (text: string, time: string) => ({
  secret: sealed(text),
  expires_at: `2030-01-01T${time}.000Z`,
});
const rotated = (text: string, ...others: ReturnType<typeof earlier>[]) =>
  fact(TenantWebhookSecretRotated, {
    ...identity,
    secret: sealed(text),
    ...(others.length > 0 && { earlier: others }),
  });

describe('a tenant', () => {
  it('is created with a webhook secret', () => given().when(create).then(created, secret));
  it('is created once', () => given(created, secret).when(create).thenNothing());
  it('is not created again after its deletion', () => given(created, deleted).when(create).thenNothing());

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
  it('appends nothing for the plan that it has already', () =>
    given(created).when({ kind: 'set-plan', plan: 'standard' }).thenNothing());
  it('rotates its webhook secret', () =>
    given(created, secret)
      .when(rotate('two', 0))
      .then(fact(TenantWebhookSecretRotated, { ...identity, secret: sealed('two') })));
  it('lets the previous secret sign for the overlap', () =>
    given(created, secret)
      .when(rotate('two', 60))
      .then(rotated('two', earlier('one', '00:01:00'))));
  it('keeps secrets of earlier overlaps until they end, and not longer', () => {
    const overlapping = rotated('two', earlier('one', '00:01:00'));
    given(created, secret, overlapping)
      .when(rotate('three', 60, '00:00:59'))
      .then(rotated('three', earlier('two', '00:01:59'), earlier('one', '00:01:00')));
    given(created, secret, overlapping)
      .when(rotate('three', 60, '00:01:00'))
      .then(rotated('three', earlier('two', '00:02:00')));
  });
  it('ends all previous secrets at once without an overlap', () =>
    given(created, secret, rotated('two', earlier('one', '00:01:00')))
      .when(rotate('three', 0))
      .then(rotated('three')));
  it('has at most five secrets that sign', () => {
    const four = ['d', 'c', 'b', 'a'].map((text) => earlier(text, '00:01:00'));
    given(created, secret, rotated('e', ...four))
      .when(rotate('f', 60))
      .thenRefused({ code: 'conflict' });
    given(created, secret, rotated('e', ...four.slice(1)))
      .when(rotate('f', 60))
      .then(rotated('f', earlier('e', '00:01:00'), ...four.slice(1)));
  });
  it('is deleted', () => given(created).when({ kind: 'delete' }).then(deleted));

  const commands: TenantCommand[] = [
    { kind: 'update', name: 'x', settings: undefined },
    { kind: 'set-plan', plan: 'enterprise' },
    rotate('two', 0),
    { kind: 'delete' },
  ];
  it.each(commands)('that is absent or deleted is not found: $kind', (command) => {
    given().when(command).thenRefused({ code: 'not_found' });
    given(created, deleted).when(command).thenRefused({ code: 'not_found' });
  });
});
