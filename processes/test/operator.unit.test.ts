import { eventRegistry, newEvent, newId, streams, TenantCreated } from '@token-vault/contracts';
import type { EventStore } from '@token-vault/event-store';
import { createMemoryEventStore } from '@token-vault/event-store/memory';
import { expect, it } from 'vitest';
import { createOperatorTenant } from '../src/operator.ts';

const [first, second] = [newId(), newId()];

async function create(store: EventStore, tenantId: string): Promise<void> {
  const data = { tenant_id: tenantId, name: 'a tenant', plan: 'standard' as const, settings: {} };
  const metadata = {
    tenant_id: tenantId,
    actor: { kind: 'system' as const, id: 'test' },
    trace_id: 't',
    correlation_id: 't',
    occurred_at: '2030-01-01T00:00:00.000Z',
  };
  await store.append(
    streams.tenant(tenantId),
    [newEvent(TenantCreated, data, { id: newId(), metadata })],
    'any',
  );
}

it('the first tenant of the log operates the vault, not a later one', async () => {
  const store = createMemoryEventStore({ registry: eventRegistry });
  const operates = createOperatorTenant(store, undefined);
  expect(await operates()).toBeUndefined();
  await create(store, first);
  expect(await operates()).toBe(first);
  await create(store, second);
  expect(await operates()).toBe(first);
});

it('the tenant of VAULT_OPERATOR_TENANT operates the vault instead', async () => {
  const store = createMemoryEventStore({ registry: eventRegistry });
  for (const tenantId of [first, second]) await create(store, tenantId);
  expect(await createOperatorTenant(store, second)()).toBe(second);
});
