import { TokenUpdated } from '@token-vault/contracts';
import { beforeEach, describe, expect, it } from 'vitest';
import { card, useVault, type TestVault } from './vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));

/** The number of token events that `work` reads. */
async function eventsRead(work: () => Promise<unknown>): Promise<number> {
  const before = vault.faults.eventsRead.get('token') ?? 0;
  await work();
  return (vault.faults.eventsRead.get('token') ?? 0) - before;
}
const versions = async (count: number, transaction?: string) => {
  for (let version = 0; version < count; version += 1)
    await vault.update('tok', { data: { cvc: String(100 + version) } }, { transaction });
};
const patch = () => vault.update('tok', { metadata: { a: 'b' } });

describe('a token with a long history', () => {
  beforeEach(async () => {
    await vault.create({ type: 'card', id: 'tok', data: { number: card, cvc: '123' } });
  });

  it('is patched and deleted after reading only its last event', async () => {
    await versions(40);
    expect(await eventsRead(patch)).toBe(1);
    const { createdAt, createdBy } = (await vault.stored('tok')) ?? {};
    expect([createdAt, createdBy]).toEqual(['2030-01-01T00:00:00.000Z', 'app']);
    expect(await vault.keys()).toEqual(['tok cvc', 'tok data']);
    expect(await eventsRead(() => vault.remove('tok'))).toBe(1);
    expect(await vault.keys()).toEqual([]);
  });

  it('is patched as quickly when transactions that wrote to it were rolled back', async () => {
    for (let round = 0; round < 12; round += 1) {
      const transaction = await vault.begin();
      await versions(2, transaction);
      await vault.end('rollback', transaction);
    }
    expect(await eventsRead(patch)).toBe(2);
    expect((await vault.stored('tok'))?.data).toEqual({ number: card, cvc: '123' });
    expect(await vault.keys()).toEqual(['tok cvc', 'tok data']);
  });

  it('is patched as quickly in a transaction that has written to it often', async () => {
    const transaction = await vault.begin();
    await versions(20, transaction);
    expect(await eventsRead(() => versions(1, transaction))).toBeLessThanOrEqual(2);
    await expect(patch()).rejects.toMatchObject({ code: 'token_locked' });
    expect(await eventsRead(() => patch().catch(() => undefined))).toBeLessThanOrEqual(2);
    await vault.end('commit', transaction);
    expect((await vault.stored('tok'))?.data).toEqual({ number: card, cvc: '100' });
    expect(await vault.keys()).toEqual(['tok cvc', 'tok data']);
  });

  it('of a release whose updates lack the time of creation is read once more', async () => {
    await versions(5);
    const newest = (await vault.events()).findLast(({ type }) => type === 'TokenUpdated');
    if (newest?.type !== 'TokenUpdated') throw new Error('there is no update');
    const { id: _id, stream, revision: _revision, position: _position, ...event } = newest;
    const { created_by: _by, created_at: _at, key_ids: _keys, signature: _signature, ...data } = event.data;
    await vault.age();
    for (let count = 0; count < 30; count += 1)
      await vault.log.append(
        stream,
        [{ ...event, id: crypto.randomUUID(), version: TokenUpdated.version, data }],
        'any',
      );
    vault.clock.advance(1000);
    expect(await patch()).toMatchObject({
      created_at: '2030-01-01T00:00:00.000Z',
      modified_at: '2030-01-01T00:00:01.000Z',
    });
    expect(await eventsRead(patch)).toBe(1);
  });
});
