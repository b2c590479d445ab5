import { describe, expect, it } from 'vitest';
import { log, tokens } from '../src/projections/index.ts';
import { many, useAdministeredVault, type AdministeredVault } from './administered-vault.ts';
import { collidingPart } from './colliding-text.ts';
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

  it('finds an altered row although a cast of the type of the table to text gives the true one', async () => {
    vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(...many(3)), ['tokens']);
    await vault.rows(
      `create schema q; create table q.truth as select id, format('%s', t) as text from rm_tokens.token t`,
    );
    await vault.rows(`create function q.truth(rm_tokens.token) returns text language sql as 'select text from q.truth where id = $1.id';
      create cast (rm_tokens.token as text) with function q.truth`);
    await vault.rows(`begin; set local search_path = rm_tokens;
      update token set mask = '"{{ data }}"' where id = 'token-2'; commit`);
    const verified = await vault.admin.verify('tokens');
    expect(verified?.tables[0]).toMatchObject({ table: 'token', surplus: 1, missing: 1 });
    expect(verified?.tables[0]?.keys).toEqual([expect.stringMatching(/^tenant_id=\S+, id=token-2$/)]);
  });

  it('finds an altered row that has the hash of the true row in Postgres', async () => {
    vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(...many(3)), ['tokens']);
    const ofToken = `textin(record_out(t)) as row, hashtextextended(textin(record_out(t)), 0)::text as hash
      from rm_tokens.token t where id = 'token-2'`;
    const [before] = await vault.rows<{ hash: string }>(`select ${ofToken}`);
    const free = '\u0001'.repeat(23);
    const alter = (set: string) =>
      vault.rows(
        `begin; set local search_path = rm_tokens; update token set ${set} where id = 'token-2'; commit`,
      );
    await alter(`mask = '"{{ data }}"', index_signature = '${free}'`);
    const [altered] = await vault.rows<{ row: string }>(`select ${ofToken}`);
    const part = collidingPart(altered?.row ?? '', free, BigInt(before?.hash ?? 0));
    await alter(`index_signature = '${part}'`);
    expect(await vault.rows(`select ${ofToken}`)).toMatchObject([{ hash: before?.hash }]);
    const verified = await vault.admin.verify('tokens');
    expect(verified?.tables[0]).toMatchObject({ table: 'token', surplus: 1, missing: 1 });
  });

  it('does not take a successor that a writer of the database left: views of the live tables', async () => {
    vault.start({ projections: [tokens] });
    await vault.reached(await vault.append(...many(3)), ['tokens']);
    await vault.rows('create schema rm_tokens_next');
    for (const { name } of tokens.tables)
      await vault.rows(`create view rm_tokens_next.${name} as select * from rm_tokens.${name}`);
    await vault.rows(`insert into projections.rebuild (name, purpose, version, generation, status, position)
      select name, 'verify', version, generation + 1, 'live', 9223372036854775807 from projections.checkpoint where name = 'tokens'`);
    await vault.plantToken();
    const verified = await vault.admin.verify('tokens');
    expect(verified?.tables[0]).toMatchObject({ table: 'token', surplus: 1, missing: 0 });
  });
});
