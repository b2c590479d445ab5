import { eventRegistry, newEvent, newId, streams, TenantCreated } from '@token-vault/contracts';
import { startPosition, type EventStore, type RecordedEvent } from '@token-vault/event-store';
import { createMemoryEventStore } from '@token-vault/event-store/memory';
import { describe, expect, it } from 'vitest';
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

describe('while an attacker has changed the log', () => {
  async function twoTenants() {
    const store = createMemoryEventStore({ registry: eventRegistry });
    for (const tenantId of [first, second]) await create(store, tenantId);
    const log = { nowMs: 0, events: [] as RecordedEvent[] };
    for await (const event of store.readAll(startPosition)) log.events.push(event);
    async function* readAll() {
      yield* log.events;
    }
    return { log, operates: createOperatorTenant({ readAll }, undefined, () => log.nowMs) };
  }

  it.each<[string, (event: RecordedEvent) => object]>([
    ['metadata', ({ metadata }) => ({ metadata: { ...metadata, tenant_id: second } })],
    ['data', ({ data }) => ({ data: { ...data, tenant_id: second } })],
    ['stream', () => ({ stream: streams.tenant(second) })],
  ])('a first creation with the %s of another tenant makes none the operator', async (_what, change) => {
    const { log, operates } = await twoTenants();
    const honest = log.events;
    log.events = honest.map((event) => ({ ...event, ...change(event) }));
    await expect(operates()).rejects.toMatchObject({ code: 'record_altered' });
    log.events = honest;
    expect(await operates()).toBe(first);
  });

  it('a creation that was put first makes its tenant the operator for a minute at most', async () => {
    const { log, operates } = await twoTenants();
    const honest = log.events;
    log.events = honest.toReversed();
    expect(await operates()).toBe(second);
    log.events = honest;
    log.nowMs = 60_000;
    expect(await operates()).toBe(first);
  });
});

it('the tenant of VAULT_OPERATOR_TENANT operates the vault instead', async () => {
  const store = createMemoryEventStore({ registry: eventRegistry });
  for (const tenantId of [first, second]) await create(store, tenantId);
  expect(await createOperatorTenant(store, second)()).toBe(second);
});
