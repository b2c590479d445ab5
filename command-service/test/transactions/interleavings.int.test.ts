import { runsOf } from '@token-vault/test-support';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { openVault, type TestVault } from '../tokens/vault.ts';
import { checkBrokenInterleavings, checkInterleavings, checkReadModel } from './interleavings.ts';

let vault: TestVault;
beforeEach(async () => {
  vault = await openVault();
});
afterEach(() => vault.close());

describe('transactions and plain writes, interleaved at random', { timeout: 180_000 }, () => {
  it('are read committed, all or nothing, with locks exactly where the model has them', async () => {
    await checkReadModel(vault, await checkInterleavings(vault, runsOf(200, 0.3)));
  });
  it('are so when the store fails before or after an append', async () => {
    await checkReadModel(vault, await checkBrokenInterleavings(vault, runsOf(200, 0.3)));
  });
});
