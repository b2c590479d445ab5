import { fieldsOf } from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import type { Principal } from '@token-vault/access';
import { streams, type Reactor } from '@token-vault/contracts';
import { isSealedValue, keyIdOf, type SealedValue } from '@token-vault/crypto';
import { createAuditTrail } from '@token-vault/operations';
import { silentLogger } from '@token-vault/observability';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createTenantCommands, type TenantCommands } from '../../src/index.ts';
import { anyone, card, openVault, refusal, type TestVault } from '../tokens/vault.ts';

let vault: TestVault;
let tenants: TenantCommands;
let manager: Principal;
beforeAll(async () => {
  vault = await openVault();
  const { faults, keyRing, clock } = vault;
  const audit = createAuditTrail(faults.store);
  tenants = createTenantCommands({ store: faults.store, keyRing, audit, clock, logger: silentLogger });
});
beforeEach(async () => {
  vault.clock.set('2030-01-01T00:00:00Z');
  vault.faults.decide = () => undefined;
  const { tenantId } = await tenants.create({ name: 'Acme', plan: 'enterprise' });
  become(tenantId);
});
afterAll(() => vault.close());

function become(tenantId: string): void {
  const tenant = { id: tenantId, plan: 'enterprise', settings: {} } as const;
  vault.principal = anyone({ tenant });
  manager = anyone({ tenant, applicationType: 'management', rules: [] });
}
const call = async (id: Parameters<TestVault['call']>[0], input: object = {}) =>
  (await vault.call(id, input, { as: manager })).body as Record<string, unknown>;

/** Every sealed value in the tenant's log, with the place (AAD) under which it opens. */
async function sealedValues() {
  const found: { place: { tenantId: string; entity: string; field: string }; value: SealedValue }[] = [];
  for (const event of await vault.events()) {
    const data = fieldsOf(event);
    const id = (data.token_id ?? data.reactor_id ?? data.tenant_id) as string;
    const kind = 'token_id' in data ? 'token' : 'reactor_id' in data ? 'reactor' : 'tenant';
    for (const [name, value] of Object.entries(data)) {
      const field = name === 'secret' ? 'webhook_secret' : name;
      const place = { tenantId: manager.tenant.id, entity: `${kind}:${id}`, field };
      if (isSealedValue(value)) found.push({ place, value });
    }
  }
  return found;
}

describe('a tenant made by the operator', () => {
  it('can seal, has a webhook secret and a management application with a key', async () => {
    const { tenantId, management } = await tenants.create({ name: 'Other', plan: 'standard' });
    become(tenantId);
    expect(management.key).toMatch(/^key_mgt_/);
    expect((await vault.events()).map(({ type }) => type)).toEqual([
      'TenantCreated',
      'TenantWebhookSecretRotated',
      'ApplicationCreated',
    ]);
    const [secret] = await sealedValues();
    const opened = await vault.keyRing.open<string>(secret!.place, secret!.value);
    expect(opened.expose()).toMatch(/^whsec_[\w+/]{43}=$/);
    expect(JSON.stringify(await vault.events())).not.toContain('whsec_');
  });

  it.each(['tenant', 'application'])('is completed by a repeat after a crash at its %s', async (at) => {
    const tenantId = randomUUID();
    vault.faults.decide = (stream) => (stream.startsWith(at) ? 'after' : undefined);
    await expect(tenants.create({ name: 'Late', plan: 'standard', tenantId })).rejects.toThrow();
    vault.faults.decide = () => undefined;
    const { management } = await tenants.create({ name: 'Late', plan: 'standard', tenantId });
    become(tenantId);
    expect(management.key).toBeDefined();
    const types = (await vault.events()).map(({ type }) => type);
    expect(types.filter((type) => type === 'TenantCreated')).toHaveLength(1);
    expect(types.filter((type) => type === 'ApplicationCreated')).toHaveLength(1);
  });

  it('changes its plan, and gets applications', async () => {
    expect(await tenants.setPlan(manager.tenant.id, 'standard')).toBeDefined();
    expect(await tenants.setPlan(manager.tenant.id, 'standard')).toBeUndefined();
    const { application } = await tenants.createApplication(manager.tenant.id, {
      name: 'Shop',
      type: 'private',
      permissions: ['token:read'],
      rules: undefined,
      expires_at: undefined,
    });
    expect(application).toMatchObject({ type: 'private', key: expect.stringMatching(/^key_pvt_/) as string });
  });

  it('must exist for these commands', async () => {
    const absent = refusal('not_found');
    await expect(tenants.setPlan(randomUUID(), 'standard')).rejects.toMatchObject(absent);
    const body = { name: 'Shop', type: 'private', permissions: ['token:read'] } as const;
    await expect(
      tenants.createApplication(randomUUID(), {
        ...body,
        permissions: ['token:read'],
        rules: undefined,
        expires_at: undefined,
      }),
    ).rejects.toMatchObject(absent);
  });
});

describe('a tenant that changes itself', () => {
  it('is answered with all its fields', async () => {
    vault.clock.advance(1000);
    const settings = { deduplicate_tokens: 'true' };
    expect(await call('updateTenant', { body: { name: 'New', settings } })).toEqual({
      id: manager.tenant.id,
      name: 'New',
      plan: 'enterprise',
      settings,
      created_at: '2030-01-01T00:00:00.000Z',
      modified_at: '2030-01-01T00:00:01.000Z',
      modified_by: 'app',
    });
    expect(await call('updateTenant', { body: { name: 'Newer' } })).toMatchObject({
      name: 'Newer',
      settings,
    });
  });

  it('gets a new webhook secret under the same key', async () => {
    const first = await call('rotateWebhookSecret');
    const second = await call('rotateWebhookSecret');
    expect(first.secret).toMatch(/^whsec_/);
    expect(second.secret).not.toBe(first.secret);
    const values = await sealedValues();
    const last = values.at(-1)!;
    expect((await vault.keyRing.open(last.place, last.value)).expose()).toBe(second.secret);
    expect(new Set(values.map(({ value }) => keyIdOf(value))).size).toBe(1);
  });
});

describe('a deleted tenant', () => {
  const reactor = { name: 'Pay', code: 'exports.a = 1;', configuration: { KEY: 'secret' } };

  async function fill(): Promise<void> {
    await vault.create({ type: 'card', data: { number: card, cvc: '123' } });
    await vault.create({ type: 'token', data: 'x' });
    expect((await call('createReactor', { body: reactor })) as unknown as Reactor).toMatchObject(reactor);
  }

  it('leaves nothing that can be opened', async () => {
    await fill();
    const values = await sealedValues();
    expect(values).toHaveLength(5);
    for (const { place, value } of values) await vault.keyRing.open(place, value);
    await call('deleteTenant');
    expect(await vault.keys()).toEqual([]);
    for (const { place, value } of values)
      await expect(vault.keyRing.open(place, value)).rejects.toMatchObject({ code: 'key_destroyed' });
    await expect(vault.keyRing.hashes(manager.tenant.id)).rejects.toMatchObject({
      code: 'tenant_keys_missing',
    });
    expect((await vault.events(streams.tenant(manager.tenant.id))).at(-1)?.type).toBe('TenantDeleted');
  });

  it('keeps all its keys while its deletion is not durable', async () => {
    await fill();
    const keys = await vault.keys();
    vault.faults.decide = () => 'before';
    await expect(call('deleteTenant')).rejects.toMatchObject({ code: 'event_store_unavailable' });
    expect(await vault.keys()).toEqual(keys);
  });

  it('leaves every other tenant as it is', async () => {
    await fill();
    const [kept, keys] = [manager.tenant.id, await vault.keys()];
    become((await tenants.create({ name: 'Other', plan: 'standard' })).tenantId);
    await call('deleteTenant');
    become(kept);
    expect(await vault.keys()).toEqual(keys);
  });

  it('cannot be created again', async () => {
    await call('deleteTenant');
    const gone = refusal('not_found');
    await expect(call('deleteTenant')).rejects.toMatchObject(gone);
    await expect(call('updateTenant', { body: { name: 'x' } })).rejects.toMatchObject(gone);
    await expect(call('rotateWebhookSecret')).rejects.toMatchObject(gone);
    const again = { name: 'Again', plan: 'standard', tenantId: manager.tenant.id } as const;
    await expect(tenants.create(again)).rejects.toMatchObject({ code: 'tenant_keys_missing' });
  });
});
