import { runsOf } from '@token-vault/test-support';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { openVault, type TestVault } from '../tokens/vault.ts';
import { checkBrokenInterleavings, checkInterleavings, checkReadModel } from './interleavings.ts';

let vault: TestVault;
beforeEach(async () => {
  vault = await openVault();
});
afterEach(() => vault.close());

describe('transactions and plain writes, interleaved at random, many times', () => {
  it('are read committed, all or nothing, with locks exactly where the model has them', async () => {
    await checkReadModel(vault, await checkInterleavings(vault, runsOf(3_000, 0.1)));
  });
  it('are so when the store fails before or after an append', async () => {
    await checkReadModel(vault, await checkBrokenInterleavings(vault, runsOf(5_000, 0.1)));
  });
});
