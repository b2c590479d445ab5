import { randomUUID } from 'node:crypto';
import { waitUntil } from '@token-vault/test-support';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  isKeyRingInitialised,
  KeyDestroyedError,
  TenantKeysMissingError,
  WrongRootKeyError,
  type KeyRing,
} from '../src/index.ts';
import { countStatements, randomRootKey, setUpRing, type RingSetup } from './ring-setup.ts';

let setup: RingSetup;
let ring: KeyRing;
let replica: KeyRing;
let tenantId: string;

beforeAll(async () => {
  setup = await setUpRing();
  ring = await setup.ring();
  replica = await setup.ring();
  tenantId = await setup.tenant(ring);
});
afterAll(() => setup.end());

describe('a tenant', () => {
  it('gets keys once, also when it is created several times on several replicas', async () => {
    const id = randomUUID();
    await Promise.all([ring, replica, ring, replica].map((each) => each.createTenantKeys(id)));
    const one = (await ring.hashes(id)).fingerprint('card', '4242');
    await replica.createTenantKeys(id);
    expect((await (await setup.ring()).hashes(id)).fingerprint('card', '4242')).toBe(one);
    expect((await ring.hashes(tenantId)).fingerprint('card', '4242')).not.toBe(one);
  });

  it('that was never created has no keys', async () => {
    const id = randomUUID();
    await expect(ring.hashes(id)).rejects.toThrow(TenantKeysMissingError);
    await expect(ring.createDataKey({ tenantId: id, entity: 'e', purpose: 'p' })).rejects.toThrow(
      TenantKeysMissingError,
    );
  });

  it('that is destroyed opens and seals no value on any replica, and gets no keys again', async () => {
    const id = await setup.tenant(ring);
    const { key, stored } = await replica.createDataKey({ tenantId: id, entity: 'token:x', purpose: 'data' });
    await stored;
    await setup.pool.query(`create table kept as select * from key_ring.data_key where tenant_id = '${id}'`);
    expect(await ring.destroyAllOfTenant(id)).toBe(1);
    // As if the destruction had stopped before this row.
    await setup.pool.query(`insert into key_ring.data_key select * from kept`);
    // The replica still holds the unwrapped tenant key.
    await expect(replica.openKey(id, key.id)).rejects.toThrow(KeyDestroyedError);
    const late = await replica.createDataKey({ tenantId: id, entity: 'token:y', purpose: 'data' });
    await expect(late.stored).rejects.toThrow(TenantKeysMissingError);
    await expect(ring.createTenantKeys(id)).rejects.toThrow(TenantKeysMissingError);
    expect(await ring.destroyAllOfTenant(id)).toBe(1);
    expect(await ring.destroyAllOfTenant(id)).toBe(0);
  });

  it('whose key is being removed blocks callers that store keys under it', async () => {
    const id = await setup.tenant(ring);
    await ring.hashes(id);
    const client = await setup.pool.connect();
    await client.query(`begin`);
    await client.query(`select from key_ring.tenant_key where tenant_id = $1 for update`, [id]);
    const { stored } = await ring.createDataKey({ tenantId: id, entity: 'token:z', purpose: 'data' });
    let isStored = false;
    const watched = stored.then(() => (isStored = true));
    // It may reject before the commit below is answered.
    watched.catch(() => undefined);
    const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    await waitUntil(async () => isStored || (await setup.pool.query(waiting)).rows.length > 0);
    await client.query(`delete from key_ring.tenant_key where tenant_id = $1`, [id]);
    await client.query(`commit`);
    client.release();
    await expect(watched).rejects.toThrow(TenantKeysMissingError);
  });

  it('has its key removed from memory when others are used, and read again', async () => {
    const small = await setup.ring({ maxCachedTenants: 2 });
    const ids = await Promise.all([1, 2, 3, 4].map(() => setup.tenant(small)));
    for (const id of [...ids, ...ids]) expect(await small.hashes(id)).toBeDefined();
    const statements = countStatements(setup.pool);
    await small.hashes(ids[3] ?? '');
    await small.hashes(ids[2] ?? '');
    expect(statements.stop()).toBe(0);
    const again = countStatements(setup.pool);
    await small.hashes(ids[0] ?? '');
    expect(again.stop()).toBe(1);
    // Loaded before the other ring's, and used after it.
    const kept = countStatements(setup.pool);
    await small.hashes(ids[2] ?? '');
    expect(kept.stop()).toBe(0);
  });

  it('has its key removed from memory after its time limit', async () => {
    const brief = await setup.ring({ tenantKeyTimeToLiveMs: 1000 });
    const before = await brief.hashes(tenantId);
    setup.clock.advance(999);
    expect(await brief.hashes(tenantId)).toBe(before);
    setup.clock.advance(1);
    expect(await brief.hashes(tenantId)).not.toBe(before);
  });
});

describe('the root key', () => {
  it('is refused in one line when it differs from the previous one', async () => {
    expect(await isKeyRingInitialised(setup.pool)).toBe(true);
    const wrong = randomRootKey();
    const refusal = await setup.ring({ rootKey: wrong }).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(WrongRootKeyError);
    const { message } = refusal as Error;
    expect(message).toContain(setup.rootKey.id);
    expect(message).toContain(wrong.id);
    expect(message).not.toContain('\n');
  });

  it('is refused when it has the right name but is another key', async () => {
    const impostor = { ...randomRootKey(), id: setup.rootKey.id };
    await expect(setup.ring({ rootKey: impostor })).rejects.toThrow(WrongRootKeyError);
  });

  it('is the same for services that start together on an empty ring', async () => {
    const fresh = await setUpRing();
    try {
      expect(await isKeyRingInitialised(fresh.pool)).toBe(false);
      const keys = Array.from({ length: 6 }, () => randomRootKey());
      const starts = await Promise.allSettled(keys.map((rootKey) => fresh.ring({ rootKey })));
      expect(starts.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      for (const start of starts) {
        if (start.status === 'rejected') expect(start.reason).toBeInstanceOf(WrongRootKeyError);
      }
    } finally {
      await fresh.end();
    }
  });
});
