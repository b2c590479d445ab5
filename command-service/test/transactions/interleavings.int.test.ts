import { afterAll, beforeAll, describe, it } from 'vitest';
import { openVault, type TestVault } from '../tokens/vault.ts';
import { checkBrokenInterleavings, checkInterleavings } from './interleavings.ts';

let vault: TestVault;
beforeAll(async () => {
  vault = await openVault();
});
afterAll(() => vault.close());

describe('transactions and plain writes, interleaved at random', { timeout: 120_000 }, () => {
  it('are read committed, all or nothing, with locks exactly where the model has them', () =>
    checkInterleavings(vault, 200));
  it('are so when the store breaks off before or after an append', () =>
    checkBrokenInterleavings(vault, 200));
});
