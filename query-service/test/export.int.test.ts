import { randomUUID } from 'node:crypto';
import { createAuditTrail, createRequestContext } from '@token-vault/operations';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { createTokenExport, type ExportPage } from '../src/index.ts';
import { principalOf, ruleOn, setUpVault, type Vault } from './vault.ts';

/** The number of tokens of a page. */
const pageSize = 200;

let vault: Vault;
let tenantId: string;
beforeAll(async () => {
  vault = await setUpVault();
});
afterAll(() => vault.end());
beforeEach(async () => {
  vault.clock.set('2030-01-01T00:00:00Z');
  tenantId = await vault.tenant();
  const ids = Array.from({ length: pageSize }, (_, index) => `a-${String(index).padStart(3, '0')}`);
  await Promise.all(ids.map((token_id) => vault.token(tenantId, { token_id })));
  await vault.token(tenantId, { token_id: 'b-lasting' });
  await vault.token(tenantId, { token_id: 'c-expiring', expires_at: '2030-01-01T01:00:00+00:00' });
  await vault.settle();
});

const revealing = () => principalOf(tenantId, { rules: [ruleOn('/', 'reveal')] });

/** The second page of an export. `between` runs before it. */
async function secondPage(between: () => void, principal = revealing): Promise<ExportPage | undefined> {
  const { pool, keyRing, store, clock } = vault;
  const watch = { requireMoving: async () => undefined };
  const exportTokens = createTokenExport({ pool, keyRing, audit: createAuditTrail(store), watch });
  const contextNow = async () =>
    createRequestContext({ principal: principal(), traceId: 'export', now: clock.now() });
  const pages = exportTokens(contextNow, { exportId: randomUUID(), recipients: ['age1'] });
  expect((await pages.next()).value?.tokens).toHaveLength(pageSize);
  between();
  return (await pages.next()).value ?? undefined;
}
const idsOf = (page: ExportPage | undefined) => page?.tokens.map(({ id }) => id);

it('an export has all existing tokens that are revealed', async () => {
  expect(idsOf(await secondPage(() => undefined))).toEqual(['b-lasting', 'c-expiring']);
});

it('an export has no token that expires during the export', async () => {
  const page = await secondPage(() => vault.clock.set('2030-01-01T01:00:00Z'));
  expect(idsOf(page)).toEqual(['b-lasting']);
});

it('an export is decided by the present rules of its caller at each page', async () => {
  let rules = [ruleOn('/', 'reveal')];
  const page = await secondPage(
    () => (rules = [ruleOn('/', 'mask')]),
    () => principalOf(tenantId, { rules }),
  );
  expect(page).toEqual({ tokens: [], leftOut: 2 });
});

it('an export ends when its caller is deleted', async () => {
  let isThere = true;
  const principal = () => {
    if (!isThere) throw new Error('no such application');
    return revealing();
  };
  await expect(secondPage(() => (isThere = false), principal)).rejects.toThrow('no such application');
});

it('an export leaves out a mask that a caller set without seeing the data', async () => {
  const set_without_sight = { mask: randomUUID() };
  await vault.token(tenantId, { token_id: 'd-unseen', mask: '{{ data }}', set_without_sight });
  await vault.token(tenantId, { token_id: 'e-seen', mask: '{{ data }}' });
  await vault.settle();
  const page = await secondPage(() => undefined);
  const masks = page?.tokens.map(({ id, mask }) => [id, mask]).slice(-2);
  expect(masks).toEqual([
    ['d-unseen', undefined],
    ['e-seen', '{{ data }}'],
  ]);
});
