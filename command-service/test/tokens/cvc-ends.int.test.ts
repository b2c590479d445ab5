import { createRequestContext } from '@token-vault/service-kit';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createTokenUse } from '../../src/index.ts';
import { card, openVault, type TestVault } from './vault.ts';

let vault: TestVault;
beforeAll(async () => {
  vault = await openVault();
});
beforeEach(async () => {
  vault.clock.set('2030-01-01T00:00:00Z');
  await vault.newTenant();
});
afterAll(() => vault.close());

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
    const { tokens, cvcEndsAt } = await use.open(ids, context);
    await tokens;
    return cvcEndsAt;
  }

  it('tells when the first cvc of them ends', async () => {
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
