import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ValidationError, type Pagination, type Token } from '@token-vault/contracts';
import type { Principal } from '@token-vault/access';
import { principalOf, recorded, ruleOn, setUpVault, unavailable, type Vault } from './vault.ts';

let vault: Vault;
let tenantId: string;

beforeAll(async () => {
  vault = await setUpVault();
});
afterAll(() => vault.end());
beforeEach(async () => {
  tenantId = await vault.tenant();
});
afterEach(() => {
  vault.beforeRecord();
  vault.clock.set('2030-01-01T00:00:00Z');
});

interface TokenPage {
  readonly pagination: Pagination;
  readonly data: Token[];
}
const list = (query: Record<string, unknown> = {}, principal: Principal = principalOf(tenantId)) =>
  vault.call<TokenPage>('listTokens', principal, { query });
const idsOf = (page: TokenPage) => page.data.map(({ id }) => id);

async function stored(seeds: readonly Parameters<Vault['token']>[1][]): Promise<void> {
  for (const seed of seeds) await vault.token(tenantId, seed);
  await vault.settle();
}

const session = (
  conditions: Principal['rules'][number]['conditions'],
  transform: 'mask' | 'reveal' = 'mask',
): Principal => {
  const { container: _, ...rule } = ruleOn('/', transform);
  return principalOf(tenantId, { rules: [{ ...rule, container: undefined, conditions }] });
};

describe('a list of tokens', () => {
  it('is sorted newest first, in pages', async () => {
    await stored(['aaa', 'bbb', 'ccc', 'ddd', 'eee'].map((token_id) => ({ token_id })));
    const pages = await Promise.all([
      list({ size: '2' }),
      list({ size: '2', page: '2' }),
      list({ size: '2', page: '3' }),
    ]);
    expect(pages.map(idsOf)).toEqual([['eee', 'ddd'], ['ccc', 'bbb'], ['aaa']]);
    expect(pages.map(({ pagination }) => pagination)).toEqual(
      [1, 2, 3].map((page) => ({ total_items: 5, page_number: page, page_size: 2, total_pages: 3 })),
    );
  });

  it('of no tokens is empty', async () => {
    expect(await list()).toEqual({
      pagination: { total_items: 0, page_number: 1, page_size: 20, total_pages: 0 },
      data: [],
    });
  });

  it('of size 0 gives the pagination only', async () => {
    await stored([{}, {}]);
    expect(await list({ size: '0' })).toEqual({
      pagination: { total_items: 2, page_number: 1, page_size: 0, total_pages: 0 },
      data: [],
    });
  });

  it('is empty at any page beyond its end', async () => {
    await stored([{}]);
    const page = await list({ page: '999999999', size: '100' });
    expect(page.data).toEqual([]);
    expect(page.pagination.total_items).toBe(1);
  });

  it('never shows another tenant’s', async () => {
    const other = await vault.tenant();
    await vault.token(other, { token_id: 'theirs', metadata: { a: 'b' } });
    await stored([]);
    for (const query of [{}, { id: 'theirs' }, { 'metadata.a': 'b' }, { type: 'token' }]) {
      expect((await list(query)).pagination.total_items).toBe(0);
    }
  });

  it('leaves out a token whose keys have just been destroyed', async () => {
    await stored([{ token_id: 'gone' }, { token_id: 'here' }]);
    await vault.keyRing.destroyKeysOfEntity(tenantId, 'token:gone');
    expect(idsOf(await list({}, principalOf(tenantId, { rules: [ruleOn('/', 'reveal')] })))).toEqual([
      'here',
    ]);
  });
});

describe('filters of a list', () => {
  beforeEach(() =>
    stored([
      { token_id: 'one', token_type: 'card', metadata: { Color: 'Blue', size: '10%' } },
      { token_id: 'two', token_type: 'bank', metadata: { Color: 'blue' } },
      { token_id: 'three', metadata: { color: 'blue', note: 'x'.repeat(1000) } },
      { token_id: 'four', metadata: { Color: 'red', size: '100' } },
    ]),
  );

  it.each<[Record<string, unknown>, string[]]>([
    [{ id: 'one' }, ['one']],
    [{ id: ['one', 'four', 'absent'] }, ['four', 'one']],
    [{ type: 'card' }, ['one']],
    [{ type: ['card', 'bank'] }, ['two', 'one']],
    [{ type: 'no_such_type' }, []],
    [{ id: ['one', 'two'], type: 'bank' }, ['two']],
    [{ 'metadata.Color': 'BLUE' }, ['two', 'one']],
    [{ 'metadata.Color': 'blu' }, []],
    [{ 'metadata.Color': ['red', 'blue'] }, ['four']],
    [{ 'metadata.Color': 'blue', 'metadata.size': '10%' }, ['one']],
    [{ 'metadata.size': '10_' }, []],
    [{ 'metadata.note': 'X'.repeat(1000) }, ['three']],
    [{ 'metadata.Color': "blue' or true --" }, []],
    [{ id: "x') or true --" }, []],
    [{ type: '%' }, []],
  ])('%j gives %j', async (query, ids) => {
    const page = await list(query);
    expect(idsOf(page)).toEqual(ids);
    expect(page.pagination.total_items).toBe(ids.length);
  });

  it('that no database can hold are refused', async () => {
    await expect(list({ 'metadata.Color': 'a\0b' })).rejects.toThrow(ValidationError);
    await expect(list({ 'metadata.a\0': 'b' })).rejects.toThrow(ValidationError);
  });

  it('that are too many are refused', async () => {
    const many = Object.fromEntries(Array.from({ length: 51 }, (_, index) => [`metadata.k${index}`, 'v']));
    await expect(list(many)).rejects.toThrow(ValidationError);
  });
});

describe('the counts and the content of a list', () => {
  beforeEach(() =>
    stored([
      { token_id: 'pci-1', containers: ['/pci/high/'], data: '1234', mask: '{{ data | reveal_last: 2 }}' },
      { token_id: 'pci-2', containers: ['/pci/low/'], data: '1234', mask: '{{ data | reveal_last: 2 }}' },
      { token_id: 'pcix', containers: ['/pcix/'], data: '1234' },
      { token_id: 'p_i', containers: ['/p_i/'], data: '1234' },
    ]),
  );

  it('holds the tokens that the rules cover, each shown by its own rule', async () => {
    const principal = principalOf(tenantId, {
      rules: [ruleOn('/pci/high/', 'reveal', 1), ruleOn('/pci/', 'mask', 2)],
    });
    const page = await list({}, principal);
    expect(page.data.map(({ id, data }) => [id, data])).toEqual([
      ['pci-2', 'XX34'],
      ['pci-1', '1234'],
    ]);
    expect(page.pagination.total_items).toBe(2);
    expect(idsOf(await list({ type: 'token', size: '1' }, principal))).toEqual(['pci-2']);
    expect((await list({ id: ['pcix', 'pci-1'] }, principal)).pagination.total_items).toBe(1);
  });

  it('compares the characters of a container, never as a pattern', async () => {
    expect(idsOf(await list({}, principalOf(tenantId, { rules: [ruleOn('/p_i/', 'mask')] })))).toEqual([
      'p_i',
    ]);
    expect(idsOf(await list({}, principalOf(tenantId, { rules: [ruleOn('/%/', 'mask')] })))).toEqual([]);
  });

  it.each<[Principal['rules'][number]['conditions'], string[]]>([
    [[{ attribute: 'id', operator: 'equals', value: 'pci-1' }], ['pci-1']],
    [[{ attribute: 'id', operator: 'starts_with', value: 'pci' }], ['pcix', 'pci-2', 'pci-1']],
    [[{ attribute: 'container', operator: 'equals', value: '/PCI/low/' }], ['pci-2']],
    [
      [
        { attribute: 'id', operator: 'starts_with', value: 'pci-' },
        { attribute: 'container', operator: 'starts_with', value: '/pci/h' },
      ],
      ['pci-1'],
    ],
    [[], []],
    [undefined, []],
  ])('follows the conditions of a session: %j', async (conditions, ids) => {
    const page = await list({}, session(conditions));
    expect(idsOf(page)).toEqual(ids);
    expect(page.pagination.total_items).toBe(ids.length);
  });

  it('are empty without a grant', async () => {
    const page = await list({}, principalOf(tenantId, { permissions: ['token:create'] }));
    expect(page).toMatchObject({ pagination: { total_items: 0 }, data: [] });
  });

  it('leaves out expired tokens that were not swept yet', async () => {
    await stored([
      { token_id: 'brief', expires_at: '2030-01-01T00:01:00Z', token_type: 'card' },
      { token_id: 'brief-pci', expires_at: '2030-01-01T00:01:00Z', containers: ['/pci/'] },
    ]);
    expect((await list()).pagination.total_items).toBe(6);
    vault.clock.set('2030-01-01T00:01:00Z');
    expect((await list()).pagination.total_items).toBe(4);
    expect(idsOf(await list())).not.toContain('brief');
    expect((await list({ type: 'card' })).pagination.total_items).toBe(0);
    expect((await list({ id: 'brief' })).pagination.total_items).toBe(0);
    const principal = principalOf(tenantId, { rules: [ruleOn('/pci/', 'mask')] });
    expect((await list({}, principal)).pagination.total_items).toBe(2);
  });

  it('is counted again when a token is deleted', async () => {
    await vault.deleteToken(tenantId, 'pcix');
    await vault.settle();
    expect((await list()).pagination.total_items).toBe(3);
  });

  it('is recorded once for the page, before it is shown', async () => {
    await list({ size: '2' });
    expect(await recorded(vault, tenantId, 'TokensRead')).toEqual([
      {
        operation: 'list',
        tokens: [
          { token_id: 'p_i', token_type: 'token', transform: 'redact' },
          { token_id: 'pcix', token_type: 'token', transform: 'redact' },
        ],
      },
    ]);
    vault.beforeRecord(() => Promise.reject(unavailable));
    await expect(list()).rejects.toBe(unavailable);
  });
});
