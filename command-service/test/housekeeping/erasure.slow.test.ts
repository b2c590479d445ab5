import type { Principal } from '@token-vault/access';
import type { Reactor } from '@token-vault/contracts';
import { keyIdOf, secret, type SealedValue } from '@token-vault/crypto';
import { EventStoreUnavailableError, type EventStore, type Position } from '@token-vault/event-store';
import { createExpressions, createInlineWorkers } from '@token-vault/expressions';
import { createAuditTrail, type Handlers } from '@token-vault/operations';
import { silentLogger } from '@token-vault/observability';
import { waitUntil, fieldsOf } from '@token-vault/test-support';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createCommandHandlers, createTenantCommands, startHousekeeping } from '../../src/index.ts';
import { anyone, card } from '../tokens/vault.ts';
import { recordingLogger, openHouse, withoutDestruction, withoutTail, type House } from './house.ts';

let house: House;
beforeEach(async () => {
  house = await openHouse();
  await house.vault.newTenant();
});
afterEach(() => house.close());

/** For calls of a process that dies each time just before it destroys a key. */
function dying(): { readonly on: Handlers } {
  const { log: store, keyRing, clock } = house.vault;
  const on = createCommandHandlers({
    store,
    keyRing: withoutDestruction(keyRing),
    audit: createAuditTrail(store),
    expressions: createExpressions(createInlineWorkers()),
    clock,
    logger: silentLogger,
  });
  return { on };
}

const checkpoint = async (): Promise<string | undefined> => {
  const { rows } = await house.vault.pool.query<{ position: string }>(
    'select position::text as position from housekeeping.checkpoint',
  );
  return rows[0]?.position;
};
/** Waits until all erasures up to the head are carried out. */
async function caughtUp(): Promise<void> {
  const marker = await house.vault.create({ type: 'token', data: 'marker' });
  await house.vault.remove(marker.id);
  const head = await house.vault.log.head();
  await waitUntil(async () => Number((await checkpoint()) ?? 0) >= Number(head));
}

const aCard = { type: 'card', data: { number: card, cvc: '123' } };
const manager = (): Principal =>
  anyone({ tenant: house.vault.principal.tenant, applicationType: 'management', rules: [] });

describe('a destruction of keys that a crash has interrupted is repeated', () => {
  it('for a deleted token', async () => {
    const { id } = await house.vault.create(aCard);
    await house.vault.remove(id, dying());
    expect(await house.vault.keys()).toEqual([`${id} cvc`, `${id} data`]);
    house.keep();
    await caughtUp();
    expect(await house.vault.keys()).toEqual([]);
  });

  it('for a deleted token, the keys of its stored answers too, and leaves those of one that has its id again', async () => {
    const { vault } = house;
    const answerOf = (id: string) =>
      vault.keyRing.sealNew(
        { tenantId: vault.principal.tenant.id, entity: `answer-of-token:${id}`, field: 'answer' },
        secret('shown'),
        { destroyAfter: new Date('2099-01-01T00:00:00Z') },
      );
    const [gone, again] = [await vault.create(aCard), await vault.create({ ...aCard, id: 'again' })];
    await answerOf(gone.id);
    for (const { id } of [gone, again]) await vault.remove(id, dying());
    await vault.create({ ...aCard, id: again.id });
    await answerOf(again.id);
    house.keep();
    await caughtUp();
    const { rows } = await vault.pool.query<{ entity: string }>(
      `select entity from key_ring.data_key where entity like 'answer-of-token:%'`,
    );
    expect(rows).toEqual([{ entity: 'answer-of-token:again' }]);
  });

  it('for the replaced cvc of a card, and leaves the new one', async () => {
    const { id } = await house.vault.create(aCard);
    await house.vault.update(id, { data: { cvc: '999' } }, dying());
    expect(await house.vault.keys()).toEqual([`${id} cvc`, `${id} cvc`, `${id} data`]);
    house.keep();
    await caughtUp();
    expect(await house.vault.keys()).toEqual([`${id} cvc`, `${id} data`]);
    expect((await house.vault.stored(id))?.data).toEqual({ number: card, cvc: '999' });
  });

  it('for an expired token, by another sweeper than the one that died', async () => {
    const expires_at = new Date(house.vault.clock.now().getTime() + 1000).toISOString();
    await house.vault.create({ type: 'token', data: 'x', expires_at });
    house.vault.clock.advance(1000);
    await house.settle();
    const { log: store, keyRing, pool, clock } = house.vault;
    const swept = startHousekeeping({
      store: withoutTail(store),
      keyRing: withoutDestruction(keyRing),
      pool,
      connectionString: house.url,
      clock,
      logger: silentLogger,
    });
    await waitUntil(async () => (await house.vault.events()).some(({ type }) => type === 'TokenExpired'));
    await swept.close();
    expect(await house.vault.keys()).toHaveLength(1);
    house.keep();
    await caughtUp();
    expect(await house.vault.keys()).toEqual([]);
  });

  it('for tokens that a committed transaction deleted, and tokens that a rolled back one created', async () => {
    const { vault } = house;
    const [deleted, kept] = [await vault.create(aCard), await vault.create({ type: 'token', data: 'x' })];
    const [committed, rolledBack] = [await vault.begin(), await vault.begin()];
    await vault.remove(deleted.id, { transaction: committed });
    await vault.create({ type: 'token', data: 'never' }, { transaction: rolledBack });
    await vault.end('commit', committed, dying());
    await vault.end('rollback', rolledBack, dying());
    expect(await vault.keys()).toHaveLength(4);
    house.keep();
    await caughtUp();
    expect(await vault.keys()).toEqual([`${kept.id} data`]);
  });

  it('for a deleted reactor', async () => {
    const body = { name: 'Pay', code: 'exports.a = 1;', configuration: { KEY: 'secret' } };
    const made = await house.vault.call('createReactor', { body }, { as: manager() });
    const params = { id: (made.body as Reactor).id };
    await house.vault.call('deleteReactor', { params }, { ...dying(), as: manager() });
    expect(await house.vault.keys()).toHaveLength(1);
    house.keep();
    await caughtUp();
    expect(await house.vault.keys()).toEqual([]);
  });

  it('for a deleted tenant, whose data cannot be opened then', async () => {
    const { vault } = house;
    const actor = manager();
    const tenant = vault.principal;
    await vault.create(aCard);
    const { log: store, keyRing, clock } = vault;
    const audit = createAuditTrail(store);
    const commands = createTenantCommands({ store, keyRing, audit, clock, logger: silentLogger });
    await commands.create({ name: 'Acme', plan: 'standard', tenantId: tenant.tenant.id });
    await vault.call('deleteTenant', {}, { ...dying(), as: actor });
    expect(await vault.keys()).not.toEqual([]);
    const gone = tenant.tenant.id;
    house.keep();
    await waitUntil(async () => (await vault.keys()).length === 0);
    await expect(vault.keyRing.hashes(gone)).rejects.toMatchObject({ code: 'tenant_keys_missing' });
  });
});

describe('keys without a decision stay', () => {
  it('while a transaction is open that deletes one token and makes another', async () => {
    const { vault } = house;
    const { id } = await vault.create(aCard);
    const transaction = await vault.begin();
    await vault.remove(id, { transaction });
    const staged = await vault.create({ type: 'token', data: 'staged' }, { transaction });
    house.keep();
    await caughtUp();
    const keys = [`${id} cvc`, `${id} data`, `${staged.id} data`].sort();
    expect((await vault.keys()).sort()).toEqual(keys);
    await vault.end('rollback', transaction);
    expect(await vault.keys()).toEqual([`${id} cvc`, `${id} data`]);
  });

  it('of a token made again under the id of a deleted one', async () => {
    const { vault } = house;
    await vault.create({ id: 'same', type: 'token', data: 'first' });
    const [created] = await vault.events();
    const first = keyIdOf(fieldsOf(created).data as SealedValue);
    await vault.remove('same', dying());
    await vault.create({ id: 'same', type: 'token', data: 'second' }, dying());
    await vault.keyRing.openKey(vault.principal.tenant.id, first);
    house.keep();
    await caughtUp();
    await expect(vault.keyRing.openKey(vault.principal.tenant.id, first)).rejects.toMatchObject({
      code: 'key_destroyed',
    });
    expect((await vault.stored('same'))?.data).toBe('second');
  });
});

describe('the checkpoint', () => {
  it('is at the end of the finished work, and the next housekeeper continues from there', async () => {
    const asked: Position[] = [];
    const first = house.keep();
    await caughtUp();
    await first.close();
    const position = await checkpoint();
    const { log } = house.vault;
    const listening: EventStore = {
      ...log,
      subscribe: (after, signal, options) => {
        asked.push(after);
        return log.subscribe(after, signal, options);
      },
    };
    house.keep({ store: listening });
    await waitUntil(() => asked.length > 0);
    expect(asked[0]).toBe(position);
  });

  it('stays where it is while an erasure fails, and the erasure is tried again', async () => {
    const { vault } = house;
    const { id } = await vault.create({ type: 'token', data: 'x' });
    await house.vault.remove(id, dying());
    /** The checkpoint at each attempt. An error here would only be one more failure of the erasure. */
    const attempts: (string | undefined)[] = [];
    const logger = recordingLogger();
    house.keep({
      logger,
      keyRing: {
        ...vault.keyRing,
        destroyKeys: async (tenantId, keyIds) => {
          attempts.push(await checkpoint());
          if (attempts.length > 1) return vault.keyRing.destroyKeys(tenantId, keyIds);
          throw new Error('the database is away');
        },
      },
    });
    await waitUntil(async () => (await vault.keys()).length === 0);
    expect(logger.messages).toContain('the erasure of deleted data is delayed');
    expect(attempts).toEqual([undefined, undefined]);
  });

  it('continues after the connection to the log was lost', async () => {
    const { vault } = house;
    const { log } = vault;
    let connections = 0;
    const cutOff: EventStore = {
      ...log,
      subscribe: (after, signal, options) => {
        connections += 1;
        return connections === 1 ? lost() : log.subscribe(after, signal, options);
      },
    };
    house.keep({ store: cutOff });
    await caughtUp();
    expect(connections).toBe(2);
  });

  it('of another log starts from the beginning', async () => {
    const { vault } = house;
    await vault.pool.query(
      `insert into housekeeping.checkpoint values ('erasure', 18446744073709551615, now())`,
    );
    const { id } = await vault.create({ type: 'token', data: 'x' });
    await house.vault.remove(id, dying());
    house.keep();
    await waitUntil(async () => (await vault.keys()).length === 0);
    await waitUntil(async () => Number(await checkpoint()) <= Number(await vault.log.head()));
  });
});

describe('of several housekeepers', () => {
  const subscribers = new Set<string>();
  const watched = (name: string): EventStore => {
    const { log } = house.vault;
    return {
      ...log,
      subscribe: (after, signal, options) => {
        subscribers.add(name);
        signal.addEventListener('abort', () => subscribers.delete(name));
        return log.subscribe(after, signal, options);
      },
    };
  };
  const locks = `select pid from pg_locks where locktype = 'advisory' and classid = 7310581 and granted
    and database = (select oid from pg_database where datname = current_database())`;
  beforeEach(() => subscribers.clear());

  async function leadersOf(): Promise<number[]> {
    return (await house.vault.pool.query<{ pid: number }>(locks)).rows.map(({ pid }) => pid);
  }

  it('one leads; when it closes, another takes over', async () => {
    const first = house.keep({ store: watched('first') });
    await waitUntil(() => subscribers.has('first'));
    house.keep({ store: watched('second') });
    await waitUntil(async () => (await standbys()) === 1);
    expect([...subscribers]).toEqual(['first']);
    expect(await leadersOf()).toHaveLength(1);
    await first.close();
    await waitUntil(() => subscribers.has('second'));
    expect([...subscribers]).toEqual(['second']);
  });

  it('another takes over when the connection of the first is cut', async () => {
    house.keep({ store: watched('first') });
    await waitUntil(() => subscribers.has('first'));
    house.keep({ store: watched('second') });
    await waitUntil(async () => (await standbys()) === 1);
    const [pid] = await leadersOf();
    await house.vault.pool.query('select pg_terminate_backend($1)', [pid]);
    await waitUntil(async () => {
      const [leader] = await leadersOf();
      return leader !== undefined && leader !== pid && subscribers.size === 1;
    });
    const { id } = await house.vault.create({ type: 'token', data: 'x' });
    await house.vault.remove(id, dying());
    await waitUntil(async () => (await house.vault.keys()).length === 0);
  });

  async function standbys(): Promise<number> {
    const { rows } = await house.vault.pool.query(
      `select 1 from pg_stat_activity where application_name = 'vault housekeeping'
        and datname = current_database() and pid not in (${locks})`,
    );
    return rows.length;
  }
});

async function* lost(): AsyncGenerator<never, void> {
  await Promise.resolve();
  throw new EventStoreUnavailableError('the connection was lost');
}
