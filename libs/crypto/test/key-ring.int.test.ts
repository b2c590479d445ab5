import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  KeyDestroyedError,
  seal,
  SealBrokenError,
  secret,
  type DataKey,
  type KeyRing,
  type SealedValue,
} from '../src/index.ts';
import { countStatements, setUpRing, type RingSetup } from './ring-setup.ts';

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

async function sealed(entity: string, destroyAfter?: Date): Promise<{ key: DataKey; value: SealedValue }> {
  const request = { tenantId, entity, purpose: 'data', ...(destroyAfter && { destroyAfter }) };
  const { key, stored } = await ring.createDataKey(request);
  const value = seal(key, { tenantId, entity, field: 'data' }, secret({ number: '4242' }));
  await stored;
  return { key, value };
}

const opened = (from: KeyRing, entity: string, value: SealedValue): Promise<unknown> =>
  from.open({ tenantId, entity, field: 'data' }, value).then((result) => result.expose());

describe('a data key', () => {
  it('opens sealed values on every replica', async () => {
    const { key, value } = await sealed('token:a');
    for (const each of [ring, replica, await setup.ring()]) {
      expect(await opened(each, 'token:a', value)).toEqual({ number: '4242' });
    }
    expect((await replica.openKey(tenantId, key.id)).exposeBytes()).toEqual(key.exposeBytes());
  });

  it('is stored wrapped only', async () => {
    const { key } = await sealed('token:plain');
    const { rows } = await setup.pool.query<{ everything: string }>(
      `select (select string_agg(d::text, '') from key_ring.data_key d) ||
              (select string_agg(t::text, '') from key_ring.tenant_key t) ||
              (select string_agg(i::text, '') from key_ring.tenant_index_key i) as everything`,
    );
    expect(rows[0]?.everything).toContain(key.id);
    expect(rows[0]?.everything).not.toContain(key.exposeBytes().toString('hex'));
  });

  it('is not found by another tenant', async () => {
    const { key } = await sealed('token:mine');
    const other = await setup.tenant(ring);
    await expect(ring.openKey(other, key.id)).rejects.toThrow(KeyDestroyedError);
    expect(await ring.destroyKeys(other, [key.id])).toEqual([]);
    expect(await ring.destroyKeysOfEntity(other, 'token:mine')).toEqual([]);
    expect((await ring.openKey(tenantId, key.id)).entity).toBe('token:mine');
  });

  it.each(['entity', 'purpose', 'wrapped'])('does not open when its row has another’s %s', async (column) => {
    const first = await ring.createDataKey({ tenantId, entity: `token:${randomUUID()}`, purpose: 'data' });
    const second = await ring.createDataKey({ tenantId, entity: `token:${randomUUID()}`, purpose: 'cvc' });
    await Promise.all([first.stored, second.stored]);
    await setup.pool.query(
      `update key_ring.data_key set ${column} = (select ${column} from key_ring.data_key where id = $2) where id = $1`,
      [first.key.id, second.key.id],
    );
    await expect(ring.openKey(tenantId, first.key.id)).rejects.toThrow(SealBrokenError);
  });

  it('is different from the many others that are made at once', async () => {
    const tenants = [await setup.tenant(ring), await setup.tenant(ring), await setup.tenant(replica)];
    const made = await Promise.all(
      Array.from({ length: 1500 }, async (_, index) => {
        const request = {
          tenantId: tenants[index % 3] ?? tenantId,
          entity: `token:"{,}\\ ${index}`,
          purpose: 'data',
          ...(index % 2 === 0 && { destroyAfter: new Date(setup.clock.now().getTime() + index + 1) }),
        };
        const created = await (index % 5 ? ring : replica).createDataKey(request);
        await created.stored;
        return created.key;
      }),
    );
    const found = await Promise.all(made.map((key) => replica.openKey(key.tenantId, key.id)));
    expect(found.map((key) => [key.entity, key.exposeBytes().toString('hex')])).toEqual(
      made.map((key) => [key.entity, key.exposeBytes().toString('hex')]),
    );
    await Promise.all(tenants.map((id) => ring.destroyAllOfTenant(id)));
  });

  it('shares round trips with those made at the same time', async () => {
    const statements = countStatements(setup.pool);
    const made = await Promise.all(
      Array.from({ length: 64 }, (_, index) =>
        ring.createDataKey({ tenantId, entity: `token:${index}`, purpose: 'x' }),
      ),
    );
    await Promise.all(made.map(({ stored }) => stored));
    await Promise.all(made.map(({ key }) => ring.openKey(tenantId, key.id)));
    // One statement to store, one to look up; two of each when a turn of the event loop came in between.
    expect(statements.stop()).toBeLessThanOrEqual(4);
  });

  it.each(['', 'a\0b', '\ud800', 'x'.repeat(1001)])(
    'for an entity Postgres cannot store fails alone: %j',
    async (entity) => {
      const good = ring.createDataKey({ tenantId, entity: 'token:good', purpose: 'data' });
      await expect(ring.createDataKey({ tenantId, entity, purpose: 'data' })).rejects.toThrow(TypeError);
      await (
        await good
      ).stored;
      await expect(ring.openKey(tenantId, `${tenantId}'`)).rejects.toThrow(TypeError);
    },
  );
});

describe('a destroyed key', () => {
  it('opens no value on any replica from that moment on', async () => {
    const { key, value } = await sealed('token:b');
    await opened(replica, 'token:b', value);
    const destroyed = await ring.destroyKeys(tenantId, [key.id]);
    expect(destroyed).toMatchObject([{ keyId: key.id, tenantId, entity: 'token:b', purpose: 'data' }]);
    for (const each of [ring, replica, await setup.ring()]) {
      await expect(opened(each, 'token:b', value)).rejects.toThrow(KeyDestroyedError);
    }
    expect(await ring.destroyKeys(tenantId, [key.id, randomUUID()])).toEqual([]);
  });

  it('is destroyed with the other keys of its entity, and no others', async () => {
    const data = await sealed('token:c');
    const cvc = await ring.createDataKey({ tenantId, entity: 'token:c', purpose: 'cvc' });
    await cvc.stored;
    const neighbour = await sealed('token:c2');
    const destroyed = await replica.destroyKeysOfEntity(tenantId, 'token:c');
    expect(destroyed.map((key) => key.keyId).sort()).toEqual([data.key.id, cvc.key.id].sort());
    expect(await opened(ring, 'token:c2', neighbour.value)).toEqual({ number: '4242' });
  });

  it('is counted once when many destroy it', async () => {
    const made = await Promise.all(Array.from({ length: 50 }, (_, index) => sealed(`token:race-${index}`)));
    const ids = made.map(({ key }) => key.id);
    const results = await Promise.all([
      ring.destroyKeys(tenantId, ids),
      replica.destroyKeys(tenantId, ids.toReversed()),
      ring.destroyKeys(tenantId, ids),
      ...made.map((_, index) => replica.destroyKeysOfEntity(tenantId, `token:race-${index}`)),
    ]);
    expect(
      results
        .flat()
        .map((key) => key.keyId)
        .sort(),
    ).toEqual(ids.sort());
  });

  it('waits for its flush even where the connection does not', async () => {
    const keys = await Promise.all(Array.from({ length: 20 }, () => sealed('token:flushed')));
    const clients = await Promise.all(Array.from({ length: 10 }, () => setup.pool.connect()));
    const setAll = (to: string): Promise<unknown> =>
      Promise.all(clients.map((client) => client.query(`set synchronous_commit = ${to}`)));
    await setAll('off');
    for (const client of clients) client.release();
    for (const { key } of keys) {
      const before = await insertLsn();
      await ring.destroyKeys(tenantId, [key.id]);
      expect(await isFlushed(before, 'past')).toBe(true);
    }
    await Promise.all(clients.map(async () => setup.pool.connect())).then(async (held) => {
      for (const client of held) {
        await client.query(`reset synchronous_commit`);
        client.release();
      }
    });
  });
});

describe('a key with an end', () => {
  it('opens no value after its end, even when the sweeper is late', async () => {
    const end = new Date(setup.clock.now().getTime() + 3_600_000);
    const { key, value } = await sealed('token:cvc', end);
    expect(await opened(replica, 'token:cvc', value)).toEqual({ number: '4242' });
    expect(await ring.dueKeys(setup.clock.now(), 10)).toEqual([]);
    setup.clock.set(end);
    await expect(opened(replica, 'token:cvc', value)).rejects.toThrow(KeyDestroyedError);
    expect(await ring.dueKeys(end, 10)).toMatchObject([{ keyId: key.id, destroyAfter: end }]);
    expect(await ring.destroyDue(end, 10)).toMatchObject([{ keyId: key.id, entity: 'token:cvc' }]);
    expect(await ring.dueKeys(end, 10)).toEqual([]);
  });

  it('is swept once, by one of many replicas, and keys without an end are never swept', async () => {
    const lasting = await sealed('token:lasting');
    const end = setup.clock.now();
    const made = await Promise.all(
      Array.from({ length: 200 }, (_, index) => sealed(`token:due-${index}`, end)),
    );
    const swept = await Promise.all(
      Array.from({ length: 8 }, async (_, index) => {
        const mine: string[] = [];
        for (;;) {
          const keys = await (index % 2 ? ring : replica).destroyDue(end, 7);
          if (keys.length === 0) return mine;
          mine.push(...keys.map((key) => key.keyId));
        }
      }),
    );
    expect(swept.flat().sort()).toEqual(made.map(({ key }) => key.id).sort());
    expect(await opened(ring, 'token:lasting', lasting.value)).toEqual({ number: '4242' });
  });
});

describe('a key that follows the log', () => {
  it('does not wait for a flush, and is durable with the next commit that does', async () => {
    const lazy = await setup.ring({ durability: 'follows-log' });
    await lazy.hashes(tenantId);
    let unflushed = 0;
    for (let index = 0; index < 50; index += 1) {
      await (
        await lazy.createDataKey({ tenantId, entity: `token:lazy-${index}`, purpose: 'data' })
      ).stored;
      const lsn = await insertLsn();
      if (!(await isFlushed(lsn))) unflushed += 1;
      await setup.pool.query(`create table if not exists log (at int); insert into log values (1)`);
      expect(await isFlushed(lsn)).toBe(true);
    }
    // The WAL writer may win a few of these races; a synchronous insert would win all of them.
    expect(unflushed).toBeGreaterThan(0);
  });

  it('leaves the connection as it was', async () => {
    const lazy = await setup.ring({ durability: 'follows-log' });
    await Promise.all(
      Array.from({ length: 40 }, async (_, index) => {
        await (
          await lazy.createDataKey({ tenantId, entity: `token:${index}`, purpose: 'data' })
        ).stored;
      }),
    );
    const clients = await Promise.all(Array.from({ length: 10 }, () => setup.pool.connect()));
    const settings = await Promise.all(clients.map((client) => client.query(`show synchronous_commit`)));
    for (const client of clients) client.release();
    expect(settings.flatMap(({ rows }) => rows as unknown[])).toEqual(
      Array.from({ length: 10 }, () => ({ synchronous_commit: 'on' })),
    );
  });

  it('waits for its flush when it is made durable by itself', async () => {
    for (let index = 0; index < 20; index += 1) {
      const before = await insertLsn();
      await (
        await ring.createDataKey({ tenantId, entity: `token:own-${index}`, purpose: 'data' })
      ).stored;
      expect(await isFlushed(before, 'past')).toBe(true);
    }
  });
});

async function insertLsn(): Promise<string> {
  const { rows } = await setup.pool.query<{ lsn: string }>(`select pg_current_wal_insert_lsn()::text as lsn`);
  return rows[0]?.lsn ?? '';
}

/** Whether the WAL is on disk up to `lsn`, or past it: a commit made after `lsn` was read is flushed too. */
async function isFlushed(lsn: string, how: 'to' | 'past' = 'to'): Promise<boolean> {
  const { rows } = await setup.pool.query<{ flushed: boolean }>(
    `select pg_current_wal_flush_lsn() ${how === 'to' ? '>=' : '>'} $1::pg_lsn as flushed`,
    [lsn],
  );
  return rows[0]?.flushed === true;
}
