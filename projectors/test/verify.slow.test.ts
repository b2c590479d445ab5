import { describe, expect, it } from 'vitest';
import { log, tokens } from '../src/projections/index.ts';
import { many, useAdministeredVault, type AdministeredVault } from './administered-vault.ts';
import { tokenDeleted } from './events.ts';

let vault: AdministeredVault;
useAdministeredVault((opened) => (vault = opened));

describe('verifying', () => {
  it('finds no difference in the runner’s tables while the runner continues', async () => {
    vault.start({ projections: [log, tokens] });
    await vault.reached(await vault.append(...many(40), tokenDeleted('token-5')), ['tokens', 'log']);
    for (const name of ['tokens', 'log']) {
      const verified = await vault.admin.verify(name);
      expect(verified).toMatchObject({ isEqual: true, position: '41' });
    }
    expect(await vault.schemas()).toEqual(['rm_tokens']);
  });

  it('finds a planted, a missing and an altered row', async () => {
    vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(...many(40)), ['tokens']);
    await vault.rows(`update rm_tokens.token_metadata set value = 'x' where token_id = 'token-7'`);
    await vault.rows(`delete from rm_tokens.token_search_index`);
    await vault.plantToken();
    const verified = await vault.admin.verify('tokens');
    expect(verified?.isEqual).toBe(false);
    expect(verified?.tables).toMatchObject([
      { table: 'token', rows: 41, surplus: 1, missing: 0 },
      { table: 'token_metadata', surplus: 1, missing: 1 },
      { table: 'token_search_index', surplus: 0, missing: 0 },
      { table: 'token_count', surplus: 1, missing: 1 },
    ]);
    expect(await vault.isPlanted()).toBe(true);
  });
});
