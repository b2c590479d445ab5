import { streams, newEvent, TransactionTokenEnlisted } from '@token-vault/contracts';
import { describe, expect, it } from 'vitest';
import { card, refusal, useVault, type TestVault } from '../tokens/vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));

const create = (id: string, transaction?: string) =>
  vault.create({ type: 'token', data: id, id }, { transaction });
const transactionStream = (id: string) => streams.transaction(vault.principal.tenant.id, id);

/** Enlists that many tokens, as another process would. */
async function enlistMany(transaction: string, from: number, to: number, size = 0): Promise<void> {
  const [opened] = await vault.events(transactionStream(transaction));
  if (!opened) throw new Error('the transaction is not there');
  const { metadata } = opened;
  const events = Array.from({ length: to - from }, (_, index) => {
    const data = {
      transaction_id: transaction,
      token_id: `many-${from + index}`,
      revision: -1,
      write: 'create' as const,
      new_key_ids: [],
      erases: false,
      size,
    };
    return newEvent(TransactionTokenEnlisted, data, { id: crypto.randomUUID(), metadata });
  });
  await vault.log.append(transactionStream(transaction), events, 'exists');
}

/** The number of events of streams of this kind that `work` reads. */
async function eventsRead(kind: string, work: () => Promise<unknown>): Promise<number> {
  const before = vault.faults.eventsRead.get(kind) ?? 0;
  await work();
  return (vault.faults.eventsRead.get(kind) ?? 0) - before;
}

describe('a write in a transaction', () => {
  it('reads a number of events that does not grow with the transaction', async () => {
    const transaction = await vault.begin();
    const cost = (id: string) => eventsRead('transaction', () => create(id, transaction));
    await cost('warm');
    const early = await cost('early');
    await enlistMany(transaction, 0, 2_000);
    await cost('catches up');
    expect(await cost('late')).toBe(early);
    expect(early).toBeLessThanOrEqual(2);
    expect(await eventsRead('token', () => vault.end('commit', transaction))).toBe(0);
    expect((await vault.stored('late'))?.data).toBe('late');
  });

  it('made from many connections at once is in it', async () => {
    const transaction = await vault.begin();
    const ids = Array.from({ length: 60 }, (_, index) => `p-${index}`);
    const other = vault.replica();
    await Promise.all(
      ids.map((id, index) =>
        vault.create({ type: 'token', data: id, id }, { transaction, on: index % 2 ? other : undefined }),
      ),
    );
    await vault.end('commit', transaction);
    expect(await vault.live()).toEqual([...ids].sort());
  });

  it('at the time of the commit is either part of it or refused, and leaves no key when it is refused', async () => {
    const transaction = await vault.begin();
    const ids = Array.from({ length: 24 }, (_, index) => `r-${index}`);
    const other = vault.replica();
    const writes = ids.map(async (id, index) => {
      if (index === 8) await vault.end('commit', transaction);
      await vault.create({ type: 'token', data: id, id }, { transaction, on: index % 2 ? other : undefined });
      return id;
    });
    const outcomes = await Promise.allSettled(writes);
    const accepted = outcomes.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    for (const each of outcomes)
      if (each.status === 'rejected') expect(each.reason).toMatchObject(refusal('transaction_not_open'));
    expect(await vault.live()).toEqual([...accepted].sort());
    expect(await vault.keys()).toEqual(accepted.map((id) => `${id} data`).sort());
  });
});

describe('the limits of transactions', () => {
  it('are 10,000 tokens in one', async () => {
    const transaction = await vault.begin();
    await enlistMany(transaction, 0, 9_998);
    await create('tok-9999', transaction);
    await create('tok-10000', transaction);
    await expect(create('tok-10001', transaction)).rejects.toMatchObject(refusal('transaction_full'));
    await vault.update('tok-10000', { data: 'again' }, { transaction });
    expect(await vault.keys()).toEqual(['tok-10000 data', 'tok-9999 data']);
    await vault.end('commit', transaction);
    expect(await vault.live()).toEqual(['tok-10000', 'tok-9999']);
  });

  it('are 32 MiB of stored tokens in one', async () => {
    const transaction = await vault.begin();
    await vault.create({ type: 'token', data: 'x'.repeat(200_000), id: 'large' }, { transaction });
    await enlistMany(transaction, 0, 1, 32 * 1024 * 1024 - 300_000);
    // A patch stores the whole token again.
    await vault.update('large', { metadata: { a: '1' } }, { transaction });
    for (const write of [create('small', transaction), vault.update('large', { mask: 'x' }, { transaction })])
      await expect(write).rejects.toMatchObject(refusal('transaction_full'));
    await vault.end('commit', transaction);
    expect(await vault.live()).toEqual(['large']);
  });

  it('count bytes, whatever the alphabet', async () => {
    const transaction = await vault.begin();
    await vault.create({ type: 'token', data: 'x', mask: '漢'.repeat(1_000) }, { transaction });
    const sizes = (await vault.events(transactionStream(transaction))).flatMap((event) =>
      event.type === 'TransactionTokenEnlisted' ? [event.data.size] : [],
    );
    expect(sizes).toEqual([expect.any(Number)]);
    expect(sizes[0]).toBeGreaterThan(3_000);
  });

  it('hold when several writes at the same time reach them', async () => {
    const transaction = await vault.begin();
    await enlistMany(transaction, 0, 9_995);
    const writes = Array.from({ length: 16 }, (_, index) => create(`last-${index}`, transaction));
    const outcomes = await Promise.allSettled(writes);
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(5);
    await vault.end('rollback', transaction);
    expect(await vault.keys()).toEqual([]);
  });

  it('are 20 open ones of an application; after the end of one another can be opened', async () => {
    const open = await Promise.all(Array.from({ length: 20 }, () => vault.begin()));
    const tooMany = refusal('too_many_transactions');
    await expect(vault.begin()).rejects.toMatchObject(tooMany);
    const other = { ...vault.principal, applicationId: 'other' };
    await vault.begin({ as: other });
    await vault.end('commit', open[3] ?? '');
    await vault.begin();
    await expect(vault.begin()).rejects.toMatchObject(tooMany);
    vault.clock.advance(60 * 60 * 1000);
    await vault.begin();
  });

  it('hold when many are opened at the same time, and refused ones are not left open', async () => {
    const outcomes = await Promise.allSettled(Array.from({ length: 30 }, () => vault.begin()));
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(20);
    const types = (await vault.events()).map(({ type }) => type);
    const count = (type: string) => types.filter((each) => each === type).length;
    expect(count('TransactionOpened') - count('TransactionRolledBack')).toBe(20);
  });

  it('are not those of tokenize requests', async () => {
    await Promise.all(Array.from({ length: 20 }, () => vault.begin()));
    await vault.tokenize(['a', 'b', 'c']);
    expect(await vault.live()).toHaveLength(3);
  });
});

describe('the end of a large transaction', () => {
  it('by its time limit leaves no key', async () => {
    const transaction = await vault.begin();
    await Promise.all(Array.from({ length: 100 }, (_, index) => create(`e-${index}`, transaction)));
    vault.clock.advance(60 * 60 * 1000);
    await vault.settle(transaction);
    expect([await vault.keys(), await vault.live()]).toEqual([[], []]);
  });

  it('that was cut off is completed, although others have written to its tokens since', async () => {
    await vault.create({ type: 'card', id: 'tok', data: { number: card, cvc: '123' } });
    await create('gone');
    const transaction = await vault.begin();
    await vault.update('tok', { data: { cvc: '456' } }, { transaction });
    await vault.remove('gone', { transaction });
    vault.faults.decide = (stream) => (stream === transactionStream(transaction) ? 'after' : undefined);
    await expect(vault.end('commit', transaction)).rejects.toThrow('cut off');
    vault.faults.decide = () => undefined;
    await vault.update('tok', { metadata: { a: 'b' } });
    await create('gone');
    await vault.settle(transaction);
    expect(await vault.keys()).toEqual(['gone data', 'tok cvc', 'tok data']);
    expect(await vault.stored('tok')).toMatchObject({ data: { cvc: '456' } });
  });
});
