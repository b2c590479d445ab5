import type { AccessRule } from '@token-vault/contracts';
import { createRequestContext } from '@token-vault/operations';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { createTokenUse } from '../../src/index.ts';
import { openVault, type TestVault } from '../tokens/vault.ts';

let vault: TestVault;
beforeAll(async () => {
  vault = await openVault();
});
beforeEach(async () => {
  await vault.newTenant();
});
afterAll(() => vault.close());

const kibibyte = 1024;

async function create(count: number, bytes: number): Promise<string[]> {
  const ids = Array.from({ length: count }, (_, index) => `large-${index}`);
  for (const id of ids) await vault.create({ id, type: 'token', data: 'x'.repeat(bytes) });
  return ids;
}

function tokenUse() {
  let reads = 0;
  const store = {
    ...vault.log,
    readStream: (...read: Parameters<typeof vault.log.readStream>) => {
      reads += 1;
      return vault.log.readStream(...read);
    },
  };
  const { keyRing, clock, principal } = vault;
  const context = createRequestContext({ principal, traceId: 'use', now: clock.now() });
  return { use: createTokenUse({ store, keyRing, clock }), context, reads: () => reads };
}

const referencesTo = (ids: readonly string[]) => ({
  tokens: new Map(ids.map((id, index) => [id, `args[${index}]`])),
  ambiguous: new Map<string, string>(),
  hasFilters: false,
});

it('tokens with 4 MiB of data together are opened, each with its data', async () => {
  const ids = await create(8, 500 * kibibyte);
  const { use, context } = tokenUse();
  const { tokens } = await use.take(referencesTo(ids), context);
  const opened = await tokens;
  expect([...opened.keys()].sort()).toEqual(ids);
  expect(opened.get('large-7')).toMatchObject({
    data: 'x'.repeat(500 * kibibyte),
    token: { id: 'large-7', type: 'token' },
  });
});

it('tokens of a client that has gone are not opened', async () => {
  const ids = await create(1, 100 * kibibyte);
  const { use } = tokenUse();
  const gone = new Error('the client has gone');
  const signal = AbortSignal.abort(gone);
  const { principal, clock } = vault;
  const context = createRequestContext({ principal, traceId: 'use', now: clock.now(), signal });
  const { tokens } = await use.take(referencesTo(ids), context);
  await expect(tokens).rejects.toBe(gone);
});

it('more than that is refused before all tokens are read: a request of 5 KB must not open 50 MiB', async () => {
  const ids = await create(27, 170 * kibibyte);
  const { use, context, reads } = tokenUse();
  const refusal = { errors: { 'args.24': ['names tokens that have more than 4 MiB of data together'] } };
  await expect(use.take(referencesTo(ids), context)).rejects.toMatchObject(refusal);
  expect(reads()).toBeLessThanOrEqual(25);
  await expect(use.check(referencesTo(ids), context)).rejects.toMatchObject(refusal);
  await expect(use.open(ids, context)).rejects.toMatchObject({ errors: { args: [expect.any(String)] } });
});

it('the size of a token that the caller may not use changes no answer', async () => {
  const ids = await create(8, 520_000);
  const { use, context } = tokenUse();
  await vault.create({
    id: 'hidden',
    type: 'token',
    data: 'x'.repeat(500 * kibibyte),
    containers: ['/secret/'],
  });
  const mine: AccessRule = {
    priority: 1,
    container: '/general/',
    transform: 'reveal',
    permissions: ['token:use'],
  };
  const caller = { ...context.principal, permissions: [], rules: [mine] };
  const limited = createRequestContext({ principal: caller, traceId: 'use', now: vault.clock.now() });
  await expect(use.take(referencesTo(ids), limited)).resolves.toBeDefined();
  const refusal = { code: 'forbidden', entity: { id: 'hidden' } };
  for (const named of [
    [...ids, 'hidden'],
    ['hidden', ...ids],
  ]) {
    await expect(use.take(referencesTo(named), limited)).rejects.toMatchObject(refusal);
    await expect(use.check(referencesTo(named), limited)).rejects.toMatchObject(refusal);
  }
});
