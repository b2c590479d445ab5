import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Token } from '@token-vault/contracts';
import { DataDependentError } from '@token-vault/operations';
import { principalOf, recorded, ruleOn, setUpVault, type Vault } from './vault.ts';

let vault: Vault;
let tenantId: string;
const large = 'x'.repeat(500_000);

beforeAll(async () => {
  vault = await setUpVault();
  tenantId = await vault.tenant();
  for (let count = 0; count < 10; count += 1)
    await vault.token(tenantId, { token_id: `large-${count}`, data: large, search_indexes: [] });
  await vault.settle();
});
afterAll(() => vault.end());

const revealing = () => principalOf(tenantId, { rules: [ruleOn('/', 'reveal')] });
const list = (size: string, principal = revealing()) =>
  vault.call<{ data: Token[] }>('listTokens', principal, { query: { size } });

describe('a page of large tokens', () => {
  it('above 4 MiB is refused before anything is recorded, and the error names the number that fits', async () => {
    await expect(list('10')).rejects.toMatchObject({
      code: 'validation_failed',
      errors: { size: ['gives a page of more than 4 MiB here: ask for at most 8'] },
    });
    const searching = principalOf(tenantId, {
      rules: [{ ...ruleOn('/', 'reveal'), permissions: ['token:search'] }],
    });
    const search = vault.call('searchTokens', searching, { body: { query: '', size: 10 } });
    await expect(search).rejects.toMatchObject({ code: 'validation_failed' });
    expect(await recorded(vault, tenantId, 'TokensRead')).toEqual([]);
  });

  it('above 4 MiB depends on the tokens up to the first that does not fit, so they decide about the result of the code that asked', async () => {
    const refusal = await list('10').catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(DataDependentError);
    const { tokens = [] } = (refusal as DataDependentError).madeOf;
    const shown = { permission: 'token:read', transform: 'reveal' };
    expect(tokens.map((token) => token.shown)).toEqual(Array.from({ length: 9 }, () => shown));
  });

  it('is given up to that size', async () => {
    expect((await list('8')).data.map(({ data }) => data)).toEqual(Array.from({ length: 8 }, () => large));
  });

  it('has no size limit for a caller that does not see the data', async () => {
    expect((await list('10', principalOf(tenantId))).data).toHaveLength(10);
  });
});
