import { streams, TenantWebhookSecretRotated } from '@token-vault/contracts';
import { seal, secret } from '@token-vault/crypto';
import { startPosition, type RecordedEvent } from '@token-vault/event-store';
import { createRequestContext } from '@token-vault/operations';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { managerOf, setUpVault, unavailable, type Vault } from './vault.ts';

let vault: Vault;
beforeAll(async () => {
  vault = await setUpVault();
});
afterAll(() => vault.end());

async function rotate(tenantId: string, plain: string): Promise<void> {
  const { keyRing, store, clock } = vault;
  const entity = `tenant:${tenantId}`;
  const { key, stored } = await keyRing.createDataKey({ tenantId, entity, purpose: 'webhook_secret' });
  await stored;
  const sealed = seal(key, { tenantId, entity, field: 'webhook_secret' }, secret(plain));
  const context = createRequestContext({
    principal: managerOf(tenantId),
    traceId: 'trace',
    now: clock.now(),
  });
  const event = context.event(TenantWebhookSecretRotated, { tenant_id: tenantId, secret: sealed });
  await store.append(streams.tenant(tenantId), [event], 'exists');
  await vault.settle();
}
const get = (tenantId: string) => vault.call('getWebhookSecret', managerOf(tenantId));

describe('the webhook secret', () => {
  it('is the last one, and its reading is recorded', async () => {
    const tenantId = await vault.tenant();
    await rotate(tenantId, 'whsec_one');
    await rotate(tenantId, 'whsec_two');
    expect(await get(tenantId)).toEqual({ secret: 'whsec_two' });
    let last: RecordedEvent | undefined;
    for await (const event of vault.store.readAll(startPosition)) last = event;
    expect(last).toMatchObject({
      type: 'EntitiesRead',
      data: { entity_type: 'tenant', operation: 'read', entity_ids: [tenantId] },
    });
  });

  it('is not shown when the reading cannot be recorded', async () => {
    const tenantId = await vault.tenant();
    await rotate(tenantId, 'whsec_one');
    vault.beforeRecord(() => Promise.reject(unavailable));
    await expect(get(tenantId)).rejects.toBe(unavailable);
    vault.beforeRecord();
  });

  it('is not found when there is none, or its key is destroyed', async () => {
    const tenantId = await vault.tenant();
    await vault.settle();
    await expect(get(tenantId)).rejects.toMatchObject({ code: 'not_found' });
    await rotate(tenantId, 'whsec_one');
    await vault.keyRing.destroyAllOfTenant(tenantId);
    await expect(get(tenantId)).rejects.toMatchObject({ code: 'not_found' });
  });
});
