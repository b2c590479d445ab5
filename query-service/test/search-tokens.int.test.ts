import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  streams,
  tokenStatementOf,
  TokenUpdated,
  type Pagination,
  type SealedValue,
  type Token,
} from '@token-vault/contracts';
import { maker } from './seeds.ts';
import { principalOf, recorded, ruleOn, setUpVault, type Vault } from './vault.ts';

let vault: Vault;
let tenantId: string;

const author = '11111111-1111-4111-8111-111111111111';

beforeAll(async () => {
  vault = await setUpVault();
  tenantId = await vault.tenant();
  const other = await vault.tenant();
  await vault.token(other, { token_id: 'theirs', indexed: ['4242'] });
  await vault.token(tenantId, {
    token_id: 'one',
    token_type: 'card',
    containers: ['/pci/high/'],
    data: 'one',
    indexed: ['123-45-6789', '6789'],
    metadata: { Color: 'Blue' },
    fingerprint: 'abc',
  });
  vault.clock.set('2030-01-02T12:00:00Z');
  await vault.token(tenantId, {
    token_id: 'two',
    containers: ['/pci/'],
    indexed: ['Jane DOE', '6789'],
    metadata: { Color: 'red' },
  });
  vault.clock.set('2030-01-03T00:00:00Z');
  await vault.token(tenantId, { token_id: 'three', containers: ['/pii/'], indexed: ["o'hara"] });
  const content = {
    data: 'sv1.00000000-0000-0000-0000-000000000000.AAAA' as SealedValue,
    containers: ['/pii/'],
  };
  const hashes = await vault.keyRing.hashes(tenantId);
  const at = vault.clock.now().toISOString();
  const made = { createdBy: maker, createdAt: at, modifiedBy: maker, modifiedAt: at };
  const three = { token_id: 'three', token_type: 'token', ...content };
  const signature = hashes.sign(tokenStatementOf({ id: 'three', type: 'token', content, ...made }), 1);
  const changer = principalOf(tenantId, { applicationId: maker });
  await vault.append(
    tenantId,
    streams.token(tenantId, 'three'),
    TokenUpdated,
    { ...three, signature },
    changer,
  );
  await vault.settle();
});
afterAll(() => vault.end());

interface TokenPage {
  readonly pagination: Pagination;
  readonly data: Token[];
}
const search = (query: string, principal = principalOf(tenantId), paging = {}) =>
  vault.call<TokenPage>('searchTokens', principal, { body: { query, ...paging } });

describe('a search', () => {
  it.each<[string, string[]]>([
    ['', ['three', 'two', 'one']],
    ['id:one', ['one']],
    ['id:ONE', []],
    ['type:card', ['one']],
    ['fingerprint:abc', ['one']],
    ['NOT fingerprint:abc', ['three', 'two']],
    ['data:6789', ['two', 'one']],
    ['data:"123-45-6789"', ['one']],
    ['data:678', []],
    ['data:"jane doe"', ['two']],
    ['data:theirs', []],
    ['container:"/pci/"', ['two']],
    ['container:"/PCI/*"', ['two', 'one']],
    ['container:"/p%/*"', []],
    ['metadata.Color:BLUE', ['one']],
    ['metadata.Color:blue OR data:"jane doe"', ['two', 'one']],
    ['data:6789 AND NOT metadata.Color:red', ['one']],
    ['data:6789 -type:card', ['two']],
    ['created_at:2030-01-02', ['two']],
    ['created_at:[2030-01-02 TO 2030-01-03]', ['three', 'two']],
    ['created_at:[2030-01-02 TO 2030-01-03}', ['two']],
    ['created_at:{* TO 2030-01-02T12:00:00Z}', ['one']],
    ['modified_at:[* TO *]', ['three']],
    ['NOT modified_at:[2030-01-01 TO *]', ['two', 'one']],
    [`created_by:${author}`, []],
    ['id:"\') or true --"', []],
    ["metadata.x\\'\\)--:y", []],
  ])('for %j finds %j', async (query, ids) => {
    const page = await search(query);
    expect(page.data.map(({ id }) => id)).toEqual(ids);
    expect(page.pagination.total_items).toBe(ids.length);
  });

  it('pages as lists do', async () => {
    const page = await search('', principalOf(tenantId), { page: 2, size: 1 });
    expect(page.data.map(({ id }) => id)).toEqual(['two']);
    expect(page.pagination).toEqual({ total_items: 3, page_number: 2, page_size: 1, total_pages: 3 });
  });

  it('finds only tokens that the caller may see, with any negation', async () => {
    const principal = principalOf(tenantId, { rules: [ruleOn('/pci/high/', 'reveal')] });
    for (const query of ['', 'NOT id:nothing', 'id:one OR id:two OR id:three', 'NOT id:a OR NOT id:b']) {
      const page = await search(query, principal);
      expect(page.data.map(({ id, data }) => [id, data])).toEqual([['one', 'one']]);
      expect(page.pagination.total_items).toBe(1);
    }
  });

  it('needs its own permission, not that of reading', async () => {
    const page = await search('', principalOf(tenantId, { permissions: ['token:read'] }));
    expect(page.pagination.total_items).toBe(0);
  });

  it('never finds another tenant’s', async () => {
    expect((await search('data:4242 OR id:theirs OR NOT id:one')).data.map(({ id }) => id)).not.toContain(
      'theirs',
    );
  });

  it('is recorded as one', async () => {
    await search('id:one');
    expect((await recorded(vault, tenantId, 'TokensRead')).at(-1)).toEqual({
      operation: 'search',
      tokens: [{ token_id: 'one', token_type: 'card', transform: 'redact' }],
    });
  });
});
