import { sealLog, type CheckSignatures } from '@token-vault/audit';
import {
  ConflictError,
  NotFoundError,
  ValidationError,
  type ErasureCertificate,
  type LogVerification,
} from '@token-vault/contracts';
import { silentLogger } from '@token-vault/observability';
import { createAuditTrail, createRequestContext } from '@token-vault/operations';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createAuditHandlers } from '../src/audit/routes.ts';
import { managerOf } from './principals.ts';
import { recorded, setUpVault, type Vault } from './vault.ts';

let vault: Vault;
let tenantId: string;
let other: string;

beforeAll(async () => {
  vault = await setUpVault();
  [tenantId, other] = [await vault.tenant(), await vault.tenant()];
});
afterAll(() => vault.end());

describe('the erasure certificate of a token', () => {
  const certify = (id: string, by = tenantId) =>
    vault.call<ErasureCertificate>('getErasureCertificate', managerOf(by), { params: { id } });

  it('is given when its keys are destroyed, is recorded, and names no other tenant’s token', async () => {
    const id = await vault.token(tenantId);
    await expect(certify(id)).rejects.toThrow(ConflictError);
    await vault.deleteToken(tenantId, id);
    await expect(certify(id)).rejects.toThrow(ConflictError);
    await vault.keyRing.destroyKeysOfEntity(tenantId, `token:${id}`);
    expect(await certify(id)).toMatchObject({ tenant_id: tenantId, token_id: id, token_type: 'token' });
    await expect(certify(id, other)).rejects.toThrow(NotFoundError);
    await expect(certify('never was')).rejects.toThrow(NotFoundError);
    const card = await vault.token(tenantId, { token_type: 'card' });
    await expect(certify(card)).rejects.toThrow(ConflictError);
    const asked = { entity_type: 'token', operation: 'read', entity_ids: [id] };
    expect(await recorded(vault, tenantId, 'EntitiesRead')).toEqual([
      asked,
      asked,
      asked,
      { ...asked, entity_type: 'card', entity_ids: [card] },
    ]);
    expect(await recorded(vault, other, 'EntitiesRead')).toEqual([]);
  });
});

describe('a verification of the log', () => {
  const verify = (query: object = {}, by = tenantId) =>
    vault.call<LogVerification>('verifyLog', managerOf(by), { query });

  it('gives the signed and the unsigned events of the caller’s tenant only', async () => {
    const { store, keyRing, clock } = vault;
    expect(await verify()).toMatchObject({ events: 0, checkpoints: 0 });
    await sealLog({ store, keyRing, clock, logger: silentLogger });
    const { events, unsigned_events: unsigned, ...rest } = await verify();
    expect(events).toBeGreaterThan(3);
    expect(unsigned).toBe(0);
    expect(rest).toMatchObject({ findings: [], checkpoints: 1, signed_at: clock.now().toISOString() });
    expect(await verify()).toMatchObject({ events, unsigned_events: 1 });
    expect((await verify({}, other)).events).toBeLessThan(events);
  });

  it('says how many findings it leaves out, and nothing of this where it has all', async () => {
    expect((await verify()).more_findings).toBeUndefined();
    const { pool, store, keyRing } = vault;
    const audit = createAuditTrail(store);
    const falseSignatures: CheckSignatures = (events) =>
      Promise.resolve(Array(1_007).fill({ event: events[0], problem: 'is not signed' }));
    const handlers = createAuditHandlers({ pool, store, keyRing, audit, signatureCheck: () => falseSignatures }); // prettier-ignore
    const context = createRequestContext({ principal: managerOf(tenantId), traceId: 't', now: vault.clock.now() }); // prettier-ignore
    const { body } = await handlers.verifyLog({ params: undefined, query: {}, body: undefined }, context);
    expect((body as LogVerification).findings).toHaveLength(1_000);
    expect(body).toMatchObject({ more_findings: 7 });
  });

  it('continues only from a cursor of its own answers', async () => {
    const signature = 'A'.repeat(86);
    const error = ValidationError.of('cursor', 'is not from an answer about this log');
    for (const place of ['0.0', '0.1', '9.7', '1.0']) {
      await expect(verify({ cursor: `${place}.${signature}` })).rejects.toEqual(error);
      await expect(verify({ cursor: place })).rejects.toThrow('is not a cursor of this operation');
    }
  });
});
