import {
  eventRegistry,
  newId,
  streams,
  type ErasureCertificate,
  type JsonObject,
  type NewEvent,
  type VaultEvent,
  type VaultEventType,
} from '@token-vault/contracts';
import { createKeyRing, environmentRootKey, seal, secret, type KeyRing } from '@token-vault/crypto';
import type { EventStore, StoredEvent } from '@token-vault/event-store';
import { systemClock } from '@token-vault/operations';
import { randomBytes } from 'node:crypto';
import type { Pool } from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { hexHashOf } from '../src/chain.ts';
import { certifyErasure, tenantsOfToken, verifyErasureCertificate } from '../src/index.ts';
import { signerOf } from '../src/signature.ts';
import { openAuditLog, type AuditLog, type LogKind } from './audit-log.ts';

const tenantId = '00000000-0000-4000-8000-000000000001';
const otherTenantId = '00000000-0000-4000-8000-000000000002';
const transactionId = '00000000-0000-4000-8000-0000000000f1';
const tokenId = 'chosen / id';

let log: AuditLog;
let pool: Pool;
let store: EventStore;
let keyRing: KeyRing;

async function openLog(kind: LogKind): Promise<void> {
  log = await openAuditLog(kind, [tenantId, otherTenantId]);
  ({ pool, store, keyRing } = log);
  for (const id of [tenantId, otherTenantId]) {
    const created = event('TenantCreated', { tenant_id: id, name: 'Acme', plan: 'enterprise', settings: {} });
    await store.append(streams.tenant(id), [created], 'no-stream');
  }
}

/** Of any type: the store checks the data. */
function event(type: VaultEventType, data: JsonObject, transaction?: string): VaultEvent {
  const made: NewEvent = {
    id: newId(),
    type,
    version: eventRegistry.versionOf(type),
    data,
    metadata: {
      tenant_id: tenantId,
      actor: { kind: 'system', id: 'test' },
      trace_id: 't',
      correlation_id: 't',
      occurred_at: '2030-01-01T00:00:00.000Z',
      ...(transaction === undefined ? {} : { transaction_id: transaction }),
    },
  };
  return made as unknown as VaultEvent;
}

const identity = { token_id: tokenId, token_type: 'card' };

async function sealed(field: 'data' | 'cvc'): Promise<string> {
  const place = { tenantId, entity: `token:${tokenId}` };
  const { key, stored } = await keyRing.createDataKey({ ...place, purpose: field });
  await stored;
  return seal(key, { ...place, field }, secret('4242424242424242'));
}
const keyIn = (value: string): string => value.split('.')[1] ?? '';

const write = (type: VaultEventType, data: JsonObject, transaction?: string) =>
  store.append(streams.token(tenantId, tokenId), [event(type, { ...identity, ...data }, transaction)], 'any');
const certify = () => certifyErasure({ store, pool, keyRing, clock: systemClock, tenantId, tokenId });

/** A card whose cvc was replaced and purged, and which was then deleted. All its keys still exist. */
async function writeErasedCard(): Promise<{ data: string; cvcs: readonly [string, string] }> {
  const [data, first, second] = [await sealed('data'), await sealed('cvc'), await sealed('cvc')];
  await write('TokenCreated', { data, cvc: first, containers: ['/pci/high/'] });
  await write('TokenUpdated', { data, cvc: second, containers: ['/pci/high/'] });
  await write('TokenCvcPurged', { key_ids: [keyIn(second)] });
  await write('TokenDeleted', { key_ids: [keyIn(data)] });
  return { data, cvcs: [first, second] };
}

const destroyAll = () => keyRing.destroyKeysOfEntity(tenantId, `token:${tokenId}`);

describe.each<LogKind>(['Postgres', 'EventStoreDB'])(
  'the certificate of a token whose log is in %s',
  (kind) => {
    beforeEach(() => openLog(kind));
    afterEach(() => log.end());

    it('names every key, the event that decided each, and its link in the audit chain', async () => {
      const { data, cvcs } = await writeErasedCard();
      await destroyAll();
      const certificate = await certify();
      const stored = (await log.read()).filter(({ stream }) => stream === streams.token(tenantId, tokenId));
      const [, , purged, deleted] = stored;
      expect(certificate).toMatchObject({ tenant_id: tenantId, token_id: tokenId, token_type: 'card' });
      expect(certificate.erased_by).toMatchObject({
        type: 'TokenDeleted',
        id: deleted?.id,
        position: deleted?.position,
        hash: hexHashOf(deleted as StoredEvent),
      });
      const decided = certificate.destroyed_keys.map((key) => [key.key_id, key.sealed, key.decided_by.id]);
      expect(decided).toEqual([
        [keyIn(data), ['data'], deleted?.id],
        [keyIn(cvcs[0]), ['cvc'], deleted?.id],
        [keyIn(cvcs[1]), ['cvc'], purged?.id],
      ]);
      expect(JSON.stringify(certificate)).not.toContain('4242424242424242');
      expect(verifyErasureCertificate(JSON.stringify(certificate), certificate.public_key)).toEqual(
        certificate,
      );
    });

    it('is refused while any of its keys exists, also a replaced one, or one of a stored answer', async () => {
      const { data, cvcs } = await writeErasedCard();
      for (const value of [data, cvcs[1]]) {
        await expect(certify()).rejects.toThrow(/is not yet erased: \d of its data keys are still there/);
        await keyRing.destroyKeys(tenantId, [keyIn(value)]);
      }
      await expect(certify()).rejects.toThrow(keyIn(cvcs[0]));
      await destroyAll();
      const answer = { tenantId, entity: `answer-of-token:${tokenId}`, purpose: 'answer' };
      await (
        await keyRing.createDataKey(answer)
      ).stored;
      await expect(certify()).rejects.toThrow('1 of its data keys');
      await keyRing.destroyKeysOfEntity(tenantId, answer.entity);
      await certify();
    });

    it('is refused for a token that exists, was made again, or never existed', async () => {
      await expect(certify()).rejects.toThrow(/has never had a token chosen \/ id$/);
      await write('TokenCreated', { data: await sealed('data'), containers: ['/'] });
      await expect(certify()).rejects.toThrow('is not erased: it is there');
      await write('TokenExpired', { key_ids: [] });
      await destroyAll();
      expect((await certify()).erased_by.type).toBe('TokenExpired');
      await write('TokenCreated', { data: await sealed('data'), containers: ['/'] });
      await expect(certify()).rejects.toThrow('is not erased: it is there');
    });

    it('is refused for a deletion in a transaction until that is committed', async () => {
      await write('TokenCreated', { data: await sealed('data'), containers: ['/'] });
      await write('TokenDeleted', { key_ids: [] }, transactionId);
      await destroyAll();
      await expect(certify()).rejects.toThrow('is not erased: it is there');
      const stream = streams.transaction(tenantId, transactionId);
      await store.append(stream, [event('TransactionCommitted', { transaction_id: transactionId })], 'any');
      expect((await certify()).erased_by.type).toBe('TokenDeleted');
      // Writes of a transaction after its commit never count.
      await write('TokenCreated', { data: await sealed('data'), containers: ['/'] });
      await write('TokenDeleted', { key_ids: [] }, transactionId);
      await destroyAll();
      await expect(certify()).rejects.toThrow('is not erased: it is there');
    });

    it('is refused for a deletion whose transaction was rolled back, also when a commit is added to the log', async () => {
      await write('TokenCreated', { data: await sealed('data'), containers: ['/'] });
      await write('TokenDeleted', { key_ids: [] }, transactionId);
      await destroyAll();
      const stream = streams.transaction(tenantId, transactionId);
      for (const end of ['TransactionRolledBack', 'TransactionCommitted'] as const)
        await store.append(stream, [event(end, { transaction_id: transactionId })], 'any');
      await expect(certify()).rejects.toThrow('is not erased: it is there');
    });

    it('is refused when the commit in the stream of its transaction is of another one', async () => {
      await write('TokenCreated', { data: await sealed('data'), containers: ['/'] });
      await write('TokenDeleted', { key_ids: [] }, transactionId);
      await destroyAll();
      const forged = event('TransactionCommitted', { transaction_id: newId() });
      await store.append(streams.transaction(tenantId, transactionId), [forged], 'any');
      await expect(certify()).rejects.toThrow('is not erased: it is there');
    });

    it('is not available after the tenant is deleted, because its signing key is destroyed too', async () => {
      await writeErasedCard();
      await keyRing.destroyAllOfTenant(tenantId);
      await expect(certify()).rejects.toMatchObject({ code: 'tenant_keys_missing' });
    });
  },
);

describe('the tenants that have had a token of an id', () => {
  beforeEach(() => openLog('EventStoreDB'));
  afterEach(() => log.end());

  it('are found by their streams', async () => {
    expect(await tenantsOfToken(store, pool, tokenId)).toEqual([]);
    await writeErasedCard();
    expect(await tenantsOfToken(store, pool, tokenId)).toEqual([tenantId]);
    expect(await tenantsOfToken(store, pool, 'chosen')).toEqual([]);
    const created = event('TokenCreated', { ...identity, data: await sealed('data'), containers: ['/'] });
    await store.append(streams.token(otherTenantId, tokenId), [created], 'no-stream');
    expect((await tenantsOfToken(store, pool, tokenId)).toSorted()).toEqual([tenantId, otherTenantId]);
  });
});

describe('a certificate', () => {
  let certificate: ErasureCertificate;
  beforeEach(async () => {
    await openLog('Postgres');
    await writeErasedCard();
    await destroyAll();
    certificate = await certify();
  });
  afterEach(() => log.end());
  const verified = (altered: object, publicKey = certificate.public_key) =>
    verifyErasureCertificate(JSON.stringify(altered), publicKey);

  it('is valid in any order and form of its file', () => {
    const reversed = Object.fromEntries(Object.entries(certificate).reverse());
    expect(verifyErasureCertificate(JSON.stringify(reversed, undefined, 4), certificate.public_key)).toEqual(
      certificate,
    );
  });

  it('is not valid when a part of it was changed, added or removed', () => {
    const [key] = certificate.destroyed_keys;
    const alterations = [
      { token_id: 'other' },
      { tenant_id: otherTenantId },
      { token_type: 'token' },
      { verified_at: '2031-01-01T00:00:00.000Z' },
      { erased_by: { ...certificate.erased_by, position: '1' } },
      { erased_by: { ...certificate.erased_by, hash: '0'.repeat(64) } },
      { destroyed_keys: [] },
      { destroyed_keys: certificate.destroyed_keys.toReversed() },
      { destroyed_keys: [{ ...key, sealed: ['data', 'cvc'] }] },
      { format: 'token-vault erasure certificate 2' },
      { note: 'added' },
      { verified_at: undefined },
      { signature: 'AAAA' },
    ];
    for (const alteration of alterations) expect(verified({ ...certificate, ...alteration })).toBeUndefined();
    expect(verified(certificate)).toEqual(certificate);
    expect(verifyErasureCertificate('{"format":', certificate.public_key)).toBeUndefined();
  });

  it('is not valid for another key, also when it names that key', async () => {
    const other = (await signerOf(keyRing, otherTenantId)).publicKey;
    expect(verified(certificate, other)).toBeUndefined();
    expect(verified({ ...certificate, public_key: other }, other)).toBeUndefined();
    expect(verified(certificate, '')).toBeUndefined();
    expect(verified({ ...certificate, public_key: 'AAAA' }, 'AAAA')).toBeUndefined();
  });

  it('is signed by the key of the tenant’s checkpoints, and stays valid after the rotation of its keys', async () => {
    await keyRing.rotateTenant(tenantId);
    const rootKey = environmentRootKey(randomBytes(32).toString('hex'));
    await keyRing.rotateRoot(rootKey);
    const later = await createKeyRing({ pool, rootKey, clock: systemClock, durability: 'own' });
    const again = await certifyErasure({
      store,
      pool,
      keyRing: later,
      clock: systemClock,
      tenantId,
      tokenId,
    });
    expect(again.public_key).toBe(certificate.public_key);
    expect(verified(certificate, again.public_key)).toEqual(certificate);
  });
});
