import type { Principal } from '@token-vault/access';
import type { AccessRule, TokenShowing } from '@token-vault/contracts';
import { createAuditTrail, createRequestContext } from '@token-vault/operations';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { createSeenTokens } from '../../src/tokens/seen.ts';
import { anyone, openVault, type TestVault } from './vault.ts';

let vault: TestVault;
beforeAll(async () => {
  vault = await openVault();
});
afterAll(() => vault.close());
beforeEach(async () => {
  await vault.newTenant();
  await vault.create({ type: 'token', data: 'x', id: 'tok', containers: ['/secret/'] });
});

const rule = (changes: Partial<AccessRule>): AccessRule => ({
  description: undefined,
  priority: 1,
  container: '/secret/',
  conditions: undefined,
  transform: 'reveal',
  permissions: ['token:update', 'token:search'],
  ...changes,
});

/** Whether the result of a run may be shown, whose code was told of the token, while its application has these rules. */
async function isShown(shown: Partial<TokenShowing>, rules: readonly AccessRule[]): Promise<boolean> {
  const { log: store, keyRing, clock } = vault;
  const application: Principal = { ...anyone({ tenant: vault.principal.tenant }), rules };
  const decide = createSeenTokens({
    store,
    keyRing,
    clock,
    audit: createAuditTrail(store),
    findApplication: () => Promise.resolve(application),
  });
  const now = clock.now();
  const context = createRequestContext({ principal: vault.principal, traceId: 'trace', now });
  const showing = {
    applicationId: 'app',
    permission: 'token:update',
    transform: 'reveal',
    ...shown,
  } as const;
  const { refusal } = await decide([{ id: 'tok', shown: showing }], now, context);
  return refusal === undefined;
}

it('an answer of an update that read the data needs token:update with reveal now, and no right to read', async () => {
  const told = { isTold: true } as const;
  expect(await isShown(told, [rule({})])).toBe(true);
  expect(await isShown(told, [rule({ transform: 'mask' })])).toBe(false);
  expect(await isShown(told, [rule({ container: '/other/' })])).toBe(false);
  expect(await isShown({}, [rule({})])).toBe(false);
});

it('an answer of a search needs that the data may be searched now, however it is shown', async () => {
  const told = { permission: 'token:search', isTold: true } as const;
  expect(await isShown(told, [rule({ transform: 'redact' })])).toBe(true);
  expect(await isShown(told, [rule({ transform: 'mask', search_data: false })])).toBe(false);
  expect(await isShown(told, [rule({ search_data: false })])).toBe(true);
  expect(await isShown(told, [rule({ container: '/other/' })])).toBe(false);
  const [strict, wide] = [rule({ transform: 'mask', search_data: false }), rule({ priority: 2 })];
  expect(await isShown(told, [strict, wide])).toBe(false);
});
