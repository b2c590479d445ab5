import { randomUUID } from 'node:crypto';
import type { Principal } from '@token-vault/access';
import { createAuditTrail, createRequestContext, type PresentCaller } from '@token-vault/operations';
import { streams, toStoredSetter, TokensExported } from '@token-vault/contracts';
import { waitUntil } from '@token-vault/test-support';
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

const applicationId = randomUUID();
const principalWith = (rules: Principal['rules']) => principalOf(tenantId, { applicationId, rules });
const revealing = () => principalWith([ruleOn('/', 'reveal')]);

interface Meanwhile {
  /** Runs before the second page is begun. */
  readonly before?: () => void;
  /** Runs when the tokens of the second page are read, and before they are opened. */
  readonly whileOpened?: () => Promise<void>;
  /** Runs while the record of the second page is being written. */
  readonly whileRecorded?: () => Promise<void>;
}

/** The second page of an export. */
async function secondPage(meanwhile: Meanwhile, principal = revealing): Promise<ExportPage | undefined> {
  const { pool, keyRing, store, clock } = vault;
  const trail = createAuditTrail(store);
  let isSecond = false;
  const once = (work: Meanwhile['whileOpened']) => {
    let done: Promise<void> | undefined;
    return async () => {
      if (isSecond) await (done ??= work?.());
    };
  };
  const [opening, recording] = [once(meanwhile.whileOpened), once(meanwhile.whileRecorded)];
  const exportTokens = createTokenExport({
    pool,
    keyRing: {
      hashes: (id) => keyRing.hashes(id),
      async open(...sealed) {
        await opening();
        return keyRing.open(...sealed);
      },
    },
    audit: {
      record: (...entry) => trail.record(...entry),
      async recordAll(...entries) {
        const position = await trail.recordAll(...entries);
        await recording();
        return position;
      },
    },
    watch: { requireMoving: async () => undefined },
  });
  const exporter: PresentCaller = {
    principalNow: async () => principal(),
    contextOf: ({ principal: by }) =>
      createRequestContext({ principal: by, traceId: 'export', now: clock.now() }),
  };
  const pages = exportTokens(exporter, { exportId: randomUUID(), recipients: ['age1'] });
  expect((await pages.next()).value?.tokens).toHaveLength(pageSize);
  isSecond = true;
  meanwhile.before?.();
  return (await pages.next()).value ?? undefined;
}

/** After this time the vault looks again at rights and tokens. */
async function passDecisionTime(): Promise<void> {
  const sinceMs = performance.now();
  await waitUntil(() => performance.now() - sinceMs > 150, { what: 'the time' });
}

/** The ids of tokens of second pages that are on record. */
async function recorded(): Promise<string[]> {
  const ids: string[] = [];
  const stream = streams.access(tenantId, vault.clock.now().toISOString().slice(0, 10));
  for await (const event of vault.store.readStream(stream))
    if (event.type === TokensExported.type) ids.push(...event.data.tokens.map(({ token_id }) => token_id));
  return ids.filter((id) => !id.startsWith('a-'));
}

const idsOf = (page: ExportPage | undefined) => page?.tokens.map(({ id }) => id);

it('an export has all existing tokens that are revealed', async () => {
  expect(idsOf(await secondPage({}))).toEqual(['b-lasting', 'c-expiring']);
});

it('an export has no token that expires during the export', async () => {
  const page = await secondPage({ before: () => vault.clock.set('2030-01-01T01:00:00Z') });
  expect(idsOf(page)).toEqual(['b-lasting']);
});

it('an export is decided by the present rules of its caller at each page', async () => {
  let rules = [ruleOn('/', 'reveal')];
  const page = await secondPage({ before: () => (rules = [ruleOn('/', 'mask')]) }, () =>
    principalWith(rules),
  );
  expect(page).toEqual({ tokens: [], leftOut: 2 });
});

it('an export ends when its caller is deleted', async () => {
  let isThere = true;
  const principal = () => {
    if (!isThere) throw new Error('no such application');
    return revealing();
  };
  await expect(secondPage({ before: () => (isThere = false) }, principal)).rejects.toThrow(
    'no such application',
  );
});

const times = ['whileOpened', 'whileRecorded'] as const;

it.each(times)('a page is decided by the rules that its caller has when it is given (%s)', async (time) => {
  let rules = [ruleOn('/', 'reveal')];
  const narrow = async () => {
    rules = [ruleOn('/', 'mask')];
    await passDecisionTime();
  };
  const page = await secondPage({ [time]: narrow }, () => principalWith(rules));
  expect(page).toEqual({ tokens: [], leftOut: 2 });
  expect(await recorded()).toEqual(time === 'whileOpened' ? [] : ['b-lasting', 'c-expiring']);
});

it.each(times)('an export ends when its caller is deleted before a page is given (%s)', async (time) => {
  let isThere = true;
  const principal = () => {
    if (!isThere) throw new Error('no such application');
    return revealing();
  };
  const remove = async () => {
    isThere = false;
    await passDecisionTime();
  };
  await expect(secondPage({ [time]: remove }, principal)).rejects.toThrow('no such application');
});

it.each(times)(
  'a token that is deleted or expires before its page is given is left out (%s)',
  async (time) => {
    await vault.token(tenantId, { token_id: 'd-deleted' });
    await vault.settle();
    const end = async () => {
      vault.clock.set('2030-01-01T01:00:00Z');
      await vault.deleteToken(tenantId, 'd-deleted');
      await vault.settle();
      await passDecisionTime();
    };
    const page = await secondPage({ [time]: end });
    expect([idsOf(page), page?.leftOut]).toEqual([['b-lasting'], 0]);
    const before = ['b-lasting', 'c-expiring', 'd-deleted'];
    expect(await recorded()).toEqual(time === 'whileOpened' ? ['b-lasting'] : before);
  },
);

it('an export leaves out a mask that a caller set without seeing the data', async () => {
  const set_without_sight = { mask: randomUUID() };
  await vault.token(tenantId, { token_id: 'd-unseen', mask: '{{ data }}', set_without_sight });
  const set_by_seeing = { mask: toStoredSetter({ by: randomUUID(), sees: true }) };
  await vault.token(tenantId, { token_id: 'e-seen', mask: '{{ data }}', set_without_sight: set_by_seeing });
  await vault.settle();
  const page = await secondPage({});
  const masks = page?.tokens.map(({ id, mask }) => [id, mask]).slice(-2);
  expect(masks).toEqual([
    ['d-unseen', undefined],
    ['e-seen', '{{ data }}'],
  ]);
});
