import { beforeEach, describe, expect, it } from 'vitest';
import { card, useVault, type TestVault } from './vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));
const hour = 60 * 60 * 1000;
const data = { number: card, cvc: '123' };
const create = (id: string, transaction?: string) =>
  vault.create({ type: 'card', data, id }, { transaction });

describe('the remaining keys', () => {
  let transaction: string;
  beforeEach(async () => {
    await create('kept');
    await create('gone');
    transaction = await vault.begin();
    await create('new', transaction);
    await create('brief', transaction);
    await vault.remove('brief', { transaction });
    await vault.remove('gone', { transaction });
    await vault.update('kept', { data: { cvc: '456' } }, { transaction });
  });
  const count = (keys: string[], name: string): number => keys.filter((key) => key === name).length;

  it('while a transaction is open are those of either outcome', async () => {
    const keys = await vault.keys();
    expect(new Set(keys)).toEqual(
      new Set([
        'brief cvc',
        'brief data',
        'gone cvc',
        'gone data',
        'kept cvc',
        'kept data',
        'new cvc',
        'new data',
      ]),
    );
    expect(count(keys, 'kept cvc')).toBe(2);
  });

  it('after its commit are the keys of its tokens', async () => {
    await vault.end('commit', transaction);
    expect(await vault.keys()).toEqual(['kept cvc', 'kept data', 'new cvc', 'new data']);
    expect((await vault.stored('kept'))?.data).toEqual({ number: card, cvc: '456' });
  });

  it('after its rollback are the keys of the tokens before it', async () => {
    await vault.end('rollback', transaction);
    expect(await vault.keys()).toEqual(['gone cvc', 'gone data', 'kept cvc', 'kept data']);
    expect((await vault.stored('kept'))?.data).toEqual({ ...data });
  });

  it('after its expiry are the keys of the tokens before it', async () => {
    vault.clock.advance(hour);
    await vault.settle(transaction);
    expect(await vault.keys()).toEqual(['gone cvc', 'gone data', 'kept cvc', 'kept data']);
  });

  it('when the end is not certain are all keys; the repeat carries out the decision of the log', async () => {
    const before = await vault.keys();
    vault.faults.decide = () => 'after';
    await expect(vault.end('commit', transaction)).rejects.toThrow('cut off');
    vault.faults.decide = () => undefined;
    expect(await vault.keys()).toEqual(before);
    await vault.settle(transaction);
    await vault.settle(transaction);
    expect(await vault.keys()).toEqual(['kept cvc', 'kept data', 'new cvc', 'new data']);
  });

  it('never include one that a deleted token had, though its id is taken again in an open transaction', async () => {
    await vault.end('commit', transaction);
    vault.faults.decide = (stream) => (stream.includes('.kept') ? 'after' : undefined);
    await expect(vault.remove('kept')).rejects.toThrow('cut off');
    vault.faults.decide = () => undefined;
    const again = await vault.begin();
    await create('kept', again);
    // The log has decided the deletion, so the old key is due for destruction (docs/explanation/erasure.md). The new
    // key belongs to the enlisted token.
    expect(count(await vault.keys(), 'kept data')).toBe(1);
    await vault.end('rollback', again);
    expect(await vault.keys()).toEqual(['new cvc', 'new data']);
  });
});
