import { threadShares, type Following, type Turn } from '@token-vault/batching';
import { waitUntil } from '@token-vault/test-support';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { anyone, useVault, type TestVault } from './vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));

const large = 'q'.repeat(400_000);
/** The turns of the thread that were asked for, by application, and how each begins. */
let asked: { readonly by: unknown; readonly begin: () => void }[];
/** The work that was paid for, in milliseconds beside other tenants. */
let paidMs: number[];
let isBusy: boolean;

beforeEach(async () => {
  [asked, paidMs, isBusy] = [[], [], false];
  const turn: Turn = {
    isOver: false,
    next: () => Promise.resolve(),
    end: ({ besideOthersMs = 0 }: Following = {}) => void paidMs.push(besideOthersMs),
  };
  vi.spyOn(threadShares, 'begin').mockImplementation(
    (by) =>
      new Promise((resolve) => {
        asked.push({ by, begin: () => resolve(turn) });
        if (!isBusy) resolve(turn);
      }),
  );
  await vault.create({ type: 'token', id: 'tok', data: { large, n: 0 } });
});
afterEach(() => vi.restoreAllMocks());

const patch = (body: object, transaction?: string) => vault.update('tok', body, { transaction });

describe('a patch of a large token', () => {
  it('pays for the whole token, whichever field it changes, also in a transaction', async () => {
    await patch({ data: { n: 1 } });
    await patch({ metadata: { a: 'b' } });
    const transaction = await vault.begin();
    await patch({ data: { n: 2 } }, transaction);
    await patch({ data: { n: 3 } }, transaction);
    const msOfLarge = large.length / 8192;
    expect(paidMs.map((ms) => Math.round(ms / msOfLarge))).toEqual([1, 1, 1, 1]);
    const by = { tenantId: vault.principal.tenant.id, applicationId: 'app' };
    expect(asked).toMatchObject(Array.from({ length: 4 }, () => ({ by })));
  });

  it('pays for a large mask', async () => {
    await vault.create({
      type: 'token',
      id: 'masked',
      data: 'x',
      mask: Array.from({ length: 40 }, () => 'm'.repeat(1000)),
    });
    await vault.update('masked', { metadata: { a: 'b' } });
    expect(paidMs.map((ms) => Math.round(ms))).toEqual([5]);
  });

  it('does not pay again for the bytes of its body', async () => {
    await patch({ data: { large: large.toUpperCase() } });
    expect(asked).toEqual([]);
  });

  it('whose client has gone gets no turn, and changes nothing', async () => {
    const gone = new Error('the client has gone');
    const signal = AbortSignal.abort(gone);
    await expect(vault.update('tok', { metadata: { a: 'b' } }, { signal })).rejects.toBe(gone);
    expect(asked).toEqual([]);
    expect((await vault.stored('tok'))?.content.metadata).toBeUndefined();
  });

  it('that waits for its turn is decided by the token as it is then', async () => {
    isBusy = true;
    const waiting = patch({ metadata: { a: 'b' } });
    await waitUntil(() => asked.length === 1);
    isBusy = false;
    await patch({ data: { large: '' } });
    asked[0]?.begin();
    await waiting;
    expect(await vault.stored('tok')).toMatchObject({
      data: { large: '', n: 0 },
      content: { metadata: { a: 'b' } },
    });
  });

  it('that waits for its turn is decided by the rights of its caller as they are then', async () => {
    isBusy = true;
    let now = vault.principal;
    const options = { principalNow: () => Promise.resolve(now) };
    const refused = expect(vault.update('tok', { metadata: { a: 'b' } }, options)).rejects.toMatchObject({
      code: 'forbidden',
    });
    await waitUntil(() => asked.length === 1);
    now = anyone({ tenant: vault.principal.tenant, rules: [] });
    asked[0]?.begin();
    await refused;
  });
});
