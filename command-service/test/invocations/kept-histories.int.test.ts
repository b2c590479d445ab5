import { createRequestContext } from '@token-vault/operations';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createTokenUse } from '../../src/index.ts';
import { openVault, type TestVault } from '../tokens/vault.ts';

let vault: TestVault;
beforeAll(async () => {
  vault = await openVault();
});
beforeEach(async () => {
  vault.clock.set('2030-01-01T00:00:00Z');
  await vault.newTenant();
});
afterAll(() => vault.close());

const references = {
  tokens: new Map([['one', 'args.card']]),
  ambiguous: new Map<string, string>(),
  hasFilters: false,
};

/** A request that has taken the token. */
async function take() {
  const { keyRing, clock, principal, faults } = vault;
  const use = createTokenUse({ store: faults.store, keyRing, clock });
  const context = createRequestContext({ principal, traceId: 'use', now: clock.now() });
  const { made, madeAt } = await use.take(references, context, async (tokens) => tokens.get('one')?.data);
  const restricted = { ...context, principal: { ...principal, rules: [] } };
  return { use, context, restricted, madeAt, data: await made };
}

async function eventsRead(work: () => Promise<unknown>): Promise<number> {
  const before = vault.faults.eventsRead.get('token') ?? 0;
  await work();
  return (vault.faults.eventsRead.get('token') ?? 0) - before;
}

describe('a token that a request has read', () => {
  const create = (data: string) =>
    vault.create({ type: 'token', data, id: 'one', containers: ['/a/'], mask: '*' });

  it('is decided about again without reading its event again, by the present rights', async () => {
    await create('x');
    const { use, context, restricted, madeAt, data } = await take();
    const reads = await eventsRead(async () => {
      await use.checkTaken(references, madeAt, context.now, context);
      expect((await use.decisionOn(['one'], context.now, context))(context)).toBeUndefined();
    });
    expect([data, reads]).toEqual(['x', 0]);
    expect((await use.decisionOn(['one'], context.now, context))(restricted)).toMatchObject({
      code: 'forbidden',
    });
  });

  it('is read again after a change, by which the decision is made', async () => {
    await create('x');
    const { use, context, madeAt } = await take();
    const onlyOfA = { ...context.principal.rules[0], container: '/a/' };
    const narrowed = { ...context, principal: { ...context.principal, rules: [onlyOfA as never] } };
    expect((await use.decisionOn(['one'], context.now, context))(narrowed)).toBeUndefined();
    await vault.update('one', { containers: ['/b/'] });
    expect((await use.decisionOn(['one'], context.now, context))(narrowed)).toMatchObject({
      code: 'forbidden',
    });
    await vault.remove('one');
    await expect(use.checkTaken(references, madeAt, context.now, context)).rejects.toMatchObject({
      code: 'validation_failed',
    });
    expect((await use.decisionOn(['one'], context.now, context))(narrowed)).toMatchObject({
      code: 'forbidden',
    });
  });

  it('ends for the request when its time is over', async () => {
    const expires_at = '2030-01-01T00:10:00Z';
    await vault.create({ type: 'token', data: 'x', id: 'one', expires_at });
    const { use, context, madeAt } = await take();
    vault.clock.advance(11 * 60_000);
    const later = { ...context, now: vault.clock.now() };
    await expect(use.checkTaken(references, madeAt, context.now, later)).rejects.toMatchObject({
      code: 'validation_failed',
    });
  });

  it('is read again while a transaction that wrote to it is open: its commit is no event of the token', async () => {
    await create('x');
    const transaction = await vault.begin();
    await vault.remove('one', { transaction });
    const { use, context, madeAt } = await take();
    await use.checkTaken(references, madeAt, context.now, context);
    await vault.end('commit', transaction);
    await expect(use.checkTaken(references, madeAt, context.now, context)).rejects.toMatchObject({
      code: 'validation_failed',
    });
  });

  it('is read again when it is large: a request may wait for minutes, and many of them at once', async () => {
    await create('x'.repeat(64 * 1024));
    const { use, context, madeAt } = await take();
    expect(await eventsRead(() => use.checkTaken(references, madeAt, context.now, context))).toBeGreaterThan(
      0,
    );
  });
});

describe('whether tokens are there that a request has been shown', () => {
  const create = () => vault.create({ type: 'token', data: 'x', id: 'one', containers: ['/a/'] });

  it('is decided again by each of two decisions of the request that begin together, when the token is deleted meanwhile', async () => {
    await create();
    const { use, context, madeAt } = await take();
    const asked = [{ id: 'one', createdAt: madeAt.get('one') }];
    let readings = 0;
    const bothHaveRead = Promise.withResolvers<void>();
    const deleted = bothHaveRead.promise.then(() => vault.remove('one'));
    const decide = () =>
      vault.faults.store.consistently(async () => {
        const areThere = await use.areThere(asked, context.now, context);
        readings += 1;
        if (readings === 2) bothHaveRead.resolve();
        await deleted;
        return areThere;
      });
    expect(await Promise.all([decide(), decide()])).toEqual([false, false]);
  });

  it('is decided by the time of their creation: another token with the id is not it, nor is one whose time is not known', async () => {
    await create();
    const { use, context, madeAt } = await take();
    const createdAt = madeAt.get('one');
    const areThere = (token: { readonly createdAt?: string | undefined }) =>
      use.areThere([{ id: 'one', ...token }], context.now, context);
    expect(await areThere({ createdAt })).toBe(true);
    expect(await areThere({})).toBe(false);
    vault.clock.advance(1);
    await vault.remove('one');
    expect(await areThere({ createdAt })).toBe(false);
    expect(await areThere({})).toBe(false);
    await create();
    expect(await areThere({ createdAt })).toBe(false);
  });

  it('can be asked with the time that an opening for a run gives', async () => {
    await create();
    const { use, context } = await take();
    const { madeAt } = await use.open(['one'], context, async () => undefined);
    expect(await use.areThere([{ id: 'one', createdAt: madeAt.get('one') }], context.now, context)).toBe(
      true,
    );
  });
});
