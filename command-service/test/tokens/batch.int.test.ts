import { UnauthenticatedError, type DeleteTokensAnswer } from '@token-vault/contracts';
import { beforeEach, describe, expect, it } from 'vitest';
import { useVault, type TestVault } from './vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));

const ids = Array.from({ length: 101 }, (_, index) => `token-${index}`);
const last = 'token-100';
beforeEach(async () => {
  await Promise.all(ids.map((id) => vault.create({ id, type: 'token', data: id })));
});

/** Deletes all tokens. From the second chunk on, `then` gives the caller. */
async function removeAll(then: () => Promise<TestVault['principal']>): Promise<DeleteTokensAnswer> {
  let chunks = 0;
  const principalNow = () => {
    chunks += 1;
    return chunks === 1 ? Promise.resolve(undefined) : then();
  };
  return (await vault.call('deleteTokens', { body: { ids } }, { principalNow })).body as DeleteTokensAnswer;
}

describe('a batch that takes long', () => {
  it('continues with the present rights of its caller', async () => {
    const { results } = await removeAll(() => Promise.resolve({ ...vault.principal, rules: [] }));
    expect(results.map(({ status }) => status)).toEqual([...Array<number>(100).fill(204), 403]);
    expect(await vault.live()).toEqual([last]);
  });

  it('writes nothing more after the key of its caller is withdrawn', async () => {
    const removing = removeAll(() => Promise.reject(new UnauthenticatedError()));
    await expect(removing).rejects.toBeInstanceOf(UnauthenticatedError);
    expect(await vault.live()).toEqual([last]);
  });
});

describe('the answer to a deletion', () => {
  it('names the tokens that were deleted, by the times of their creation', async () => {
    const [first = '', second = '', third = ''] = ids;
    const createdAt = vault.clock.now().toISOString();
    await vault.call('deleteToken', { params: { id: first } });
    vault.clock.advance(1_000);
    const { created_at: later } = await vault.create({ id: first, type: 'token', data: 'other' });
    const one = await vault.call('deleteToken', { params: { id: first } });
    expect(one.deleted).toEqual([{ id: first, createdAt: later }]);
    const some = await vault.call('deleteTokens', { body: { ids: [first, second, third] } });
    expect(some.deleted).toEqual([
      { id: second, createdAt },
      { id: third, createdAt },
    ]);
  });
});
