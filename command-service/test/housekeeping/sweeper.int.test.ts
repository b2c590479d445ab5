import { randomUUID } from 'node:crypto';
import { streams, TokenUpdated, type NewDataOf } from '@token-vault/contracts';
import { EventStoreUnavailableError, type EventStore } from '@token-vault/event-store';
import { createRequestContext } from '@token-vault/operations';
import { waitUntil } from '@token-vault/test-support';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { anyone, card } from '../tokens/vault.ts';
import { recordingLogger, openHouse, withoutTail, type House } from './house.ts';

const hour = 60 * 60 * 1000;
const second = 1000;
let house: House;
beforeAll(async () => {
  house = await openHouse();
  // A leader sweeps at once. In the first test its sweep might come before the sweep whose report is checked.
  const logger = recordingLogger();
  sweeper(house.vault.log, logger);
  await waitUntil(() => logger.messages.includes('leads a task'), { what: 'a leader' });
});
beforeEach(async () => {
  house.vault.clock.set('2030-01-01T00:00:00Z');
  await house.vault.newTenant();
});
afterAll(() => house.close());

const sweeper = (store: EventStore = house.vault.log, logger = recordingLogger()) =>
  house.keep({ store: withoutTail(store), logger });
/** Ten seconds after the start of the test's clock. */
const expires_at = '2030-01-01T00:00:10Z';
const aCard = { type: 'card', data: { number: card, cvc: '123' } };

describe('a token past its time', () => {
  it('is ended and its keys are destroyed; other tokens stay', async () => {
    const { vault } = house;
    const gone = await vault.create({ type: 'token', data: 'x', expires_at });
    const kept = await vault.create({ type: 'token', data: 'x', expires_at: '2030-01-01T00:00:10.001Z' });
    vault.clock.advance(10 * second);
    await house.settle();
    const { ended, failures } = await sweeper().runOnce();
    expect(ended.expiredTokens).toBeGreaterThan(0);
    expect(failures).toBe(0);
    expect(await house.typesOf(gone.id)).toEqual(['TokenCreated', 'TokenExpired']);
    expect(await house.typesOf(kept.id)).toEqual(['TokenCreated']);
    expect(await vault.keys()).toEqual([`${kept.id} data`]);
    const events = await vault.events(streams.token(vault.principal.tenant.id, gone.id));
    expect(events.at(-1)?.metadata.actor).toEqual({ kind: 'system', id: 'token-expiry' });
  });

  it('ends once, although two sweepers run at once and one runs again on an old read model', async () => {
    const { vault } = house;
    const bodies = Array.from({ length: 20 }, () => ({ type: 'token', data: 'x', expires_at }));
    const tokens = await Promise.all(bodies.map((body) => vault.create(body)));
    vault.clock.advance(10 * second);
    await house.settle();
    const [one, other] = [sweeper(), sweeper()];
    const reports = await Promise.all([one.runOnce(), other.runOnce()]);
    const again = await one.runOnce();
    expect(reports.map(({ failures }) => failures)).toEqual([0, 0]);
    expect(again.ended.expiredTokens).toBe(0);
    for (const { id } of tokens) expect(await house.typesOf(id)).toEqual(['TokenCreated', 'TokenExpired']);
    expect(await vault.keys()).toEqual([]);
  });

  it('stays when its expiry was changed after the read model was written', async () => {
    const { vault } = house;
    const { id } = await vault.create({ type: 'token', data: 'x', expires_at });
    await house.settle();
    await vault.update(id, { expires_at: null });
    await house.tamper('update token set expires_at = $1 where id = $2', [vault.clock.now(), id]);
    await sweeper().runOnce();
    expect(await house.typesOf(id)).toEqual(['TokenCreated', 'TokenUpdated']);
    expect(await vault.keys()).toEqual([`${id} data`]);
  });

  it('waits for the transaction that holds it', async () => {
    const { vault } = house;
    const { id } = await vault.create({ type: 'token', data: 'x', expires_at });
    const transaction = await vault.begin();
    await vault.update(id, { metadata: { a: 'b' } }, { transaction });
    vault.clock.advance(10 * second);
    await house.settle();
    const { runOnce } = sweeper();
    await runOnce();
    expect(await house.typesOf(id)).toEqual(['TokenCreated', 'TokenUpdated']);
    vault.clock.advance(hour);
    await house.settle();
    await runOnce();
    expect(await house.typesOf(id)).toEqual(['TokenCreated', 'TokenUpdated', 'TokenExpired']);
    expect(await vault.keys()).toEqual([]);
  });

  it('is ended although more than a page of other due tokens cannot be ended', async () => {
    const { vault } = house;
    const insert = `insert into token
      (tenant_id, id, type, data, container, created_by, created_at, expires_at, seq, ordinal)
      select $1, 'phantom' || n, 'token', 'x', '/', 'x', now(), $2, n, 0 from generate_series(1, 500) n`;
    await house.tamper(insert, [randomUUID(), vault.clock.now()]);
    const { id } = await vault.create({ type: 'token', data: 'x', expires_at });
    vault.clock.advance(10 * second);
    await house.settle();
    const { failures } = await sweeper().runOnce();
    expect(failures).toBe(0);
    expect(await house.typesOf(id)).toEqual(['TokenCreated', 'TokenExpired']);
    await house.tamper(`delete from token where id like 'phantom%'`);
  });
});

describe('the cvc of a card', () => {
  it('is purged after an hour; the card stays', async () => {
    const { vault } = house;
    const { id } = await vault.create(aCard);
    vault.clock.advance(hour - 1);
    await house.settle();
    const { runOnce } = sweeper();
    await runOnce();
    expect(await house.typesOf(id)).toEqual(['TokenCreated']);
    expect(await vault.keys()).toEqual([`${id} cvc`, `${id} data`]);
    vault.clock.advance(1);
    const { ended } = await runOnce();
    expect(ended.dueCvcs).toBeGreaterThan(0);
    expect(await house.typesOf(id)).toEqual(['TokenCreated', 'TokenCvcPurged']);
    expect(await vault.keys()).toEqual([`${id} data`]);
    expect((await vault.stored(id))?.data).toEqual({ number: card });
    await expect(vault.update(id, { metadata: { a: 'b' } })).resolves.toMatchObject({ id });
  });

  it('is purged of a card that was altered in the log, which stays refused', async () => {
    const { vault } = house;
    const { id } = await vault.create(aCard);
    const stream = streams.token(vault.principal.tenant.id, id);
    const created = (await vault.events(stream))[0];
    const context = createRequestContext({
      principal: vault.principal,
      traceId: 'thief',
      now: vault.clock.now(),
    });
    const forged = { ...created?.data, containers: ['/mine/'] } as NewDataOf<'TokenUpdated'>;
    await vault.log.append(stream, [context.event(TokenUpdated, forged)], 'any');
    vault.clock.advance(hour);
    await house.settle();
    await sweeper().runOnce();
    expect(await house.typesOf(id)).toEqual(['TokenCreated', 'TokenUpdated', 'TokenCvcPurged']);
    expect(await vault.keys()).toEqual([`${id} data`]);
    await expect(vault.update(id, { metadata: { a: 'b' } })).rejects.toMatchObject({
      code: 'record_altered',
    });
  });

  it('loses its key in time, although a transaction holds the card and no read model has it', async () => {
    const { vault } = house;
    const { id } = await vault.create(aCard);
    vault.clock.advance(hour - second);
    const transaction = await vault.begin();
    await vault.update(id, { metadata: { a: 'b' } }, { transaction });
    vault.clock.advance(second);
    const { destroyedKeys } = await sweeper().runOnce();
    expect(destroyedKeys).toBeGreaterThan(0);
    expect(await vault.keys()).toEqual([`${id} data`]);
  });
});

describe('other ends by time', () => {
  it('an application', async () => {
    const { vault } = house;
    const manager = anyone({ tenant: vault.principal.tenant, applicationType: 'management' });
    const body = { name: 'A', type: 'private', permissions: ['token:read'], expires_at };
    const { body: made } = await vault.call('createApplication', { body }, { as: manager });
    vault.clock.advance(10 * second);
    await house.settle();
    const { runOnce } = sweeper();
    const { ended } = await runOnce();
    expect(ended.expiredApplications).toBeGreaterThan(0);
    await runOnce();
    const stream = streams.application(vault.principal.tenant.id, (made as { id: string }).id);
    expect((await vault.events(stream)).map(({ type }) => type)).toEqual([
      'ApplicationCreated',
      'ApplicationExpired',
    ]);
  });

  it('a session that was not authorized', async () => {
    const { vault } = house;
    const id = randomUUID();
    const actor = { kind: 'application', id } as const;
    const as = anyone({
      tenant: vault.principal.tenant,
      actor,
      applicationId: id,
      applicationType: 'public',
      keyHash: 'a'.repeat(64),
    });
    await vault.call('createSession', {}, { as });
    vault.clock.advance(3 * 60 * second);
    await house.settle();
    const { ended } = await sweeper().runOnce();
    expect(ended.expiredSessions).toBeGreaterThan(0);
    expect((await vault.events()).map(({ type }) => type)).toEqual(['SessionOpened', 'SessionExpired']);
  });

  it('a transaction, with the keys of tokens that it did not create', async () => {
    const { vault } = house;
    await vault.begin();
    const kept = await vault.create({ type: 'token', data: 'kept' });
    await vault.create({ type: 'token', data: 'staged' }, { transaction: await vault.begin() });
    vault.clock.advance(hour);
    await house.settle();
    const { ended } = await sweeper().runOnce();
    expect(ended.expiredTransactions).toBeGreaterThan(0);
    expect(await vault.keys()).toEqual([`${kept.id} data`]);
    expect((await vault.events()).filter(({ type }) => type === 'TransactionExpired')).toHaveLength(2);
  });
});

describe('a sweep with a failure', () => {
  /** Fails every append to this token's stream. */
  const failing = (tokenId: string, error: Error): EventStore => {
    const { log } = house.vault;
    const stream = streams.token(house.vault.principal.tenant.id, tokenId);
    return {
      ...withoutTail(log),
      append: (to, events, expected) =>
        to === stream ? Promise.reject(error) : log.append(to, events, expected),
    };
  };

  it('ends all other tokens, reports the failure, and ends that token in the next sweep', async () => {
    const { vault } = house;
    const [broken, fine] = [
      await vault.create({ type: 'token', data: 'x', expires_at }),
      await vault.create({ type: 'token', data: 'x', expires_at }),
    ];
    vault.clock.advance(10 * second);
    await house.settle();
    const logger = recordingLogger();
    const { failures } = await sweeper(failing(broken.id, new Error('broken')), logger).runOnce();
    expect(failures).toBe(1);
    expect(logger.messages).toContain('an expired entity could not be ended');
    expect(await house.typesOf(fine.id)).toEqual(['TokenCreated', 'TokenExpired']);
    expect(await vault.keys()).toEqual([`${broken.id} data`]);
    await sweeper().runOnce();
    expect(await vault.keys()).toEqual([]);
  });

  it('destroys no key of a token whose end is not durable', async () => {
    const { vault } = house;
    const { id } = await vault.create({ type: 'token', data: 'x', expires_at });
    vault.clock.advance(10 * second);
    await house.settle();
    const { failures } = await sweeper(failing(id, new EventStoreUnavailableError('away'))).runOnce();
    expect(failures).toBe(1);
    expect(await vault.keys()).toEqual([`${id} data`]);
    await sweeper().runOnce();
  });
});
