import type { Transform } from '@token-vault/contracts';
import { createRequestContext } from '@token-vault/operations';
import { describe, expect, it } from 'vitest';
import { createTokenUse } from '../../src/index.ts';
import { card, useVault, type TestVault } from './vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));

const withCvc = { type: 'card', data: { number: card, cvc: '123' } };

describe('the use of tokens', () => {
  async function endOf(...ids: string[]): Promise<string | undefined> {
    const { log: store, keyRing, clock } = vault;
    const use = createTokenUse({ store, keyRing, clock });
    const context = createRequestContext({
      principal: vault.principal,
      traceId: 'use',
      now: vault.clock.now(),
    });
    const { made, cvcEndsAt } = await use.open(ids, context, async () => undefined);
    await made;
    return cvcEndsAt;
  }

  it('gives the time when the first cvc of the tokens ends', async () => {
    await vault.create({ ...withCvc, id: 'first' });
    vault.clock.set('2030-01-01T00:10:00Z');
    await vault.create({ ...withCvc, id: 'second' });
    await vault.create({ type: 'token', data: 'x', id: 'plain' });
    expect(await endOf('second', 'plain')).toBe('2030-01-01T01:10:00.000Z');
    expect(await endOf('second', 'first')).toBe('2030-01-01T01:00:00.000Z');
    expect(await endOf('plain')).toBeUndefined();
    vault.clock.set('2030-01-01T01:00:00Z');
    expect(await endOf('second', 'first')).toBe('2030-01-01T01:10:00.000Z');
  });
});

describe('an answer names the time when the cvc of its token ends', () => {
  const endsIn = async (...call: Parameters<TestVault['call']>): Promise<unknown> =>
    (await vault.call(...call)).tokens
      ?.filter(({ shown }) => shown?.isTold !== true)
      .map(({ cvcEndsAt }) => cvcEndsAt);
  const end = '2030-01-01T01:00:00.000Z';
  const params = { id: 'tok' };

  it('that is made, or found as a duplicate', async () => {
    const body = { ...withCvc, id: 'tok', deduplicate_token: true };
    expect(await endsIn('createToken', { body })).toEqual([end]);
    vault.clock.set('2030-01-01T00:10:00Z');
    expect(await endsIn('createToken', { body })).toEqual([end]);
    vault.clock.set(end);
    expect(await endsIn('createToken', { body })).toEqual([undefined]);
  });

  it('that is tokenized', async () => {
    const body = { card: withCvc, plain: 'x' };
    expect(await endsIn('tokenize', { body })).toEqual([end, undefined]);
  });

  it('only where the answer may show it, to the caller of an update and to one that finds a duplicate', async () => {
    await vault.create({ ...withCvc, id: 'tok', deduplicate_token: true });
    const as = (transform: Transform) => ({
      as: { ...vault.principal, rules: vault.principal.rules.map((rule) => ({ ...rule, transform })) },
    });
    const update = { params, body: { metadata: { a: 'b' } } };
    const create = { body: { ...withCvc, deduplicate_token: true } };
    const ends = (transform: Transform) =>
      Promise.all([
        endsIn('updateToken', update, as(transform)),
        endsIn('createToken', create, as(transform)),
      ]);
    expect(await ends('reveal')).toEqual([[end], [end]]);
    expect(await ends('mask')).toEqual([[undefined], [undefined]]);
    expect(await ends('redact')).toEqual([[undefined], [undefined]]);
  });

  it('that is updated, which may bring a new one', async () => {
    await vault.create({ ...withCvc, id: 'tok' });
    vault.clock.set('2030-01-01T00:10:00Z');
    expect(await endsIn('updateToken', { params, body: { metadata: { a: 'b' } } })).toEqual([end]);
    const body = { data: { cvc: '321' } };
    expect(await endsIn('updateToken', { params, body })).toEqual(['2030-01-01T01:10:00.000Z']);
  });
});
