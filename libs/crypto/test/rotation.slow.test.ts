import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Pool } from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  KeyDestroyedError,
  RotationInProgressError,
  seal,
  secret,
  TenantKeysMissingError,
  WrongRootKeyError,
  type KeyRing,
  type SealedValue,
} from '../src/index.ts';
import { randomRootKey, setUpRing, type RingSetup } from './ring-setup.ts';

interface Made {
  readonly tenantId: string;
  readonly entity: string;
  readonly keyId: string;
  readonly value: SealedValue;
}

let setup: RingSetup;
let ring: KeyRing;
let tenantId: string;

beforeEach(async () => {
  setup = await setUpRing();
  ring = await setup.ring();
  tenantId = await setup.tenant(ring);
});
afterEach(() => setup.end());

async function make(by: KeyRing, tenant = tenantId, entity = `token:${randomUUID()}`): Promise<Made> {
  const { key, stored } = await by.createDataKey({ tenantId: tenant, entity, purpose: 'data' });
  const value = seal(key, { tenantId: tenant, entity, field: 'data' }, secret(entity));
  await stored;
  return { tenantId: tenant, entity, keyId: key.id, value };
}

async function expectOpen(by: KeyRing, made: readonly Made[]): Promise<void> {
  const values = await Promise.all(
    made.map(({ tenantId: tenant, entity, value }) =>
      by.open({ tenantId: tenant, entity, field: 'data' }, value),
    ),
  );
  expect(values.map((value) => value.expose())).toEqual(made.map(({ entity }) => entity));
}

/** Creates and opens keys without a pause until stopped; any failure fails the test. */
function startLoad(by: KeyRing, tenant = tenantId): { stop(): Promise<Made[]> } {
  let isStopped = false;
  const workers = Array.from({ length: 8 }, async () => {
    const made: Made[] = [];
    while (!isStopped) {
      const one = await make(by, tenant);
      await expectOpen(by, [one, made[0] ?? one]);
      made.push(one);
    }
    return made;
  });
  return {
    async stop() {
      isStopped = true;
      return (await Promise.all(workers)).flat();
    },
  };
}

const versions = async (): Promise<unknown[]> =>
  (
    await setup.pool.query<{ version: number }>(
      `select distinct tenant_key_version as version from key_ring.data_key where tenant_id = $1
       union all select version from key_ring.tenant_key where tenant_id = $1
       union all select tenant_key_version from key_ring.tenant_index_key where tenant_id = $1`,
      [tenantId],
    )
  ).rows.map((row) => row.version);

describe('the rotation of a tenant key', () => {
  it('fails no request of any replica and leaves no key wrapped by the old key', async () => {
    const replica = await setup.ring();
    const before = await Promise.all(Array.from({ length: 1200 }, () => make(ring)));
    const fingerprint = (await ring.hashes(tenantId)).fingerprint('card', '4242');
    const loads = [startLoad(ring), startLoad(replica)];
    expect(await ring.rotateTenant(tenantId)).toBeGreaterThanOrEqual(1200);
    const during = (await Promise.all(loads.map((load) => load.stop()))).flat();
    expect(await versions()).toEqual([2, 2, 2]);
    for (const each of [ring, replica, await setup.ring()]) {
      await expectOpen(each, [...before, ...during]);
      expect((await each.hashes(tenantId)).fingerprint('card', '4242')).toBe(fingerprint);
    }
  });

  it('wraps keys again that an uninformed replica tries to store under the old key', async () => {
    const unaware = await setup.ring();
    await unaware.hashes(tenantId);
    await ring.rotateTenant(tenantId);
    await expectOpen(ring, await Promise.all(Array.from({ length: 20 }, () => make(unaware))));
    expect(await versions()).toEqual([2, 2, 2]);
  });

  it('continues where it was interrupted', async () => {
    const made = await Promise.all(Array.from({ length: 1200 }, () => make(ring)));
    const interrupted = await setup.ring({ pool: failingAfter(setup.pool, 'update key_ring.data_key', 1) });
    await expect(interrupted.rotateTenant(tenantId)).rejects.toThrow('cut off');
    expect(new Set(await versions())).toEqual(new Set([1, 2]));
    await expectOpen(await setup.ring(), made);
    expect(await ring.rotateTenant(tenantId)).toBe(700);
    expect(await versions()).toEqual([2, 2, 2]);
    await expectOpen(ring, made);
  });

  it('waits for the lock of a rotation that was interrupted a moment ago', async () => {
    const interrupted = await setup.pool.connect();
    const lock = `select pg_advisory_lock(hashtext('key_ring.rotation'), hashtext($1))`;
    await interrupted.query(lock, [`the key of tenant ${tenantId}`]);
    const rotated = Promise.allSettled([ring.rotateTenant(tenantId)]);
    // The rotation tries to take the lock every 100 ms and does not show its attempts. The lock is held during the first ones.
    await delay(200);
    interrupted.release(true);
    expect(await rotated).toMatchObject([{ status: 'fulfilled' }]);
  });

  it('restores no destroyed key', async () => {
    const made = await Promise.all(Array.from({ length: 600 }, () => make(ring)));
    const ids = made.map(({ keyId }) => keyId);
    await Promise.all([ring.rotateTenant(tenantId), ring.destroyKeys(tenantId, ids)]);
    const left = await setup.pool.query(`select from key_ring.data_key where tenant_id = $1`, [tenantId]);
    expect(left.rows).toEqual([]);
    await expect(ring.openKey(tenantId, ids[0] ?? '')).rejects.toThrow(KeyDestroyedError);
  });

  it('runs once at a time, and not for a deleted tenant', async () => {
    const both = await Promise.allSettled([ring.rotateTenant(tenantId), ring.rotateTenant(tenantId)]);
    const refused = both.filter((each) => each.status === 'rejected');
    for (const { reason } of refused) expect(reason).toBeInstanceOf(RotationInProgressError);
    expect(refused.length).toBeLessThanOrEqual(1);
    await ring.destroyAllOfTenant(tenantId);
    await expect(ring.rotateTenant(tenantId)).rejects.toThrow(TenantKeysMissingError);
  });
});

describe('the rotation of the root key', () => {
  it('fails no request of replicas that hold both keys, and the old key is refused afterwards', async () => {
    const next = randomRootKey();
    const tenants = await Promise.all(Array.from({ length: 150 }, () => setup.tenant(ring)));
    const made = await Promise.all(tenants.map((tenant) => make(ring, tenant)));
    // No cache: each use reads the wrapped tenant key, whichever root key wraps it at that moment.
    const replica = await setup.ring({ otherRootKeys: [next], tenantKeyTimeToLiveMs: 0 });
    const load = startLoad(replica);
    let isRotating = true;
    const newcomers = (async () => {
      const created: Made[] = [];
      while (isRotating) created.push(await make(replica, await setup.tenant(replica)));
      return created;
    })();
    expect(await ring.rotateRoot(next)).toBeGreaterThanOrEqual(151);
    isRotating = false;
    const all = [...made, ...(await load.stop()), ...(await newcomers)];
    const left = await setup.pool.query(`select from key_ring.tenant_key where root_key_id <> $1`, [next.id]);
    expect(left.rows).toEqual([]);
    await expectOpen(await setup.ring({ rootKey: next }), all);
    await expect(setup.ring()).rejects.toThrow(WrongRootKeyError);
    await expect(ring.rotateRoot(setup.rootKey)).rejects.toThrow('was retired');
  });

  it('fails no request of a replica that looks for the new key only when it reads a key wrapped by it', async () => {
    const next = randomRootKey();
    const made = await make(ring);
    const asked: string[] = [];
    const findRootKey = async (id: string) => {
      asked.push(id);
      return next;
    };
    const replica = await setup.ring({ findRootKey, tenantKeyTimeToLiveMs: 0 });
    const load = startLoad(replica);
    await ring.rotateRoot(next);
    await expectOpen(await setup.ring({ rootKey: next }), [made, ...(await load.stop())]);
    await expectOpen(replica, [await make(replica, await setup.tenant(replica))]);
    expect(new Set(asked)).toEqual(new Set([next.id]));
  });

  it('is not done by a root key with another id than the wanted one', async () => {
    const next = randomRootKey();
    const replica = await setup.ring({ findRootKey: async () => randomRootKey(), tenantKeyTimeToLiveMs: 0 });
    await ring.rotateRoot(next);
    await expect(replica.hashes(tenantId)).rejects.toThrow(WrongRootKeyError);
  });

  it('needs both keys until it has ended, and continues where it was interrupted', async () => {
    const next = randomRootKey();
    const made = await make(ring);
    await Promise.all(Array.from({ length: 20 }, () => setup.tenant(ring)));
    const interrupted = await setup.ring({ pool: failingAfter(setup.pool, 'update key_ring.tenant_key', 5) });
    await expect(interrupted.rotateRoot(next)).rejects.toThrow('cut off');
    for (const rootKey of [next, setup.rootKey]) {
      await expect(setup.ring({ rootKey })).rejects.toThrow(WrongRootKeyError);
    }
    const resumed = await setup.ring({ rootKey: next, otherRootKeys: [setup.rootKey] });
    await expectOpen(resumed, [made]);
    expect(await resumed.rotateRoot(next)).toBe(16);
    await expectOpen(await setup.ring({ rootKey: next }), [made]);
  });

  it('keeps a tenant usable that is created by a process that still prefers the old key', async () => {
    const next = randomRootKey();
    const stale = await setup.ring({ otherRootKeys: [next] });
    await ring.rotateRoot(next);
    const made = await make(stale, await setup.tenant(stale));
    await expectOpen(await setup.ring({ rootKey: next }), [made]);
  });
});

describe('a signature', () => {
  const statement = { kind: 'application', texts: ['id', 'private'] } as const;

  it('is valid and unchanged after its tenant key and the root key are rotated, also on a replica that held neither', async () => {
    const signature = (await ring.hashes(tenantId)).sign(statement, 3);
    const next = randomRootKey();
    await ring.rotateTenant(tenantId);
    await ring.rotateRoot(next);
    const other = await setup.ring({ rootKey: next });
    for (const each of [ring, other]) {
      const hashes = await each.hashes(tenantId);
      expect(hashes.isSigned(statement, signature)).toBe(true);
      expect(hashes.sign(statement, 3)).toBe(signature);
      expect(hashes.isSigned({ ...statement, texts: ['id', 'management'] }, signature)).toBe(false);
    }
    const elsewhere = await other.hashes(await setup.tenant(other));
    expect(elsewhere.isSigned(statement, signature)).toBe(false);
  });
});

/** A pool that breaks at the (n+1)th statement that contains `text`. */
function failingAfter(pool: Pool, text: string, times: number): Pool {
  let left = times;
  return new Proxy(pool, {
    get(target, property) {
      if (property !== 'query') {
        const value: unknown = Reflect.get(target, property);
        return typeof value === 'function' ? (value.bind(target) as unknown) : value;
      }
      return async (...input: unknown[]) => {
        if (String(input[0]).includes(text) && left-- === 0) throw new Error('cut off');
        return (target.query as (...input: unknown[]) => unknown).apply(target, input);
      };
    },
  });
}
