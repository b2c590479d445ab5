import type { Token } from '@token-vault/contracts';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { principalOf, ruleOn, setUpVault, type Vault } from './vault.ts';

let vault: Vault;
let tenantId: string;
let id: string;
beforeAll(async () => {
  vault = await setUpVault();
});
beforeEach(async () => {
  vault.clock.set('2030-01-01T00:00:00Z');
  tenantId = await vault.tenant();
  id = await vault.token(tenantId, {
    token_type: 'card',
    containers: ['/pci/high/'],
    mask: '{{ data.number | reveal_last: 4 }}',
    data: { number: '4242424242424242' },
    cvc: '123',
    cvc_expires_at: '2030-01-01T01:00:00.000Z',
    expires_at: '2031-01-01T02:00:00.1234567+02:00',
  });
  await vault.settle();
});
afterAll(() => vault.end());

const altered = { code: 'record_altered', status: 500 };
const reader = () =>
  principalOf(tenantId, { rules: [ruleOn('/mine/', 'reveal', 1), ruleOn('/', 'mask', 2)] });
const get = (principal = reader()) => vault.call<Token>('getToken', principal, { params: { id } });
const list = (principal = reader()) => vault.call<{ data: Token[] }>('listTokens', principal);

async function write(sql: string): Promise<void> {
  const client = await vault.pool.connect();
  await client.query('set search_path = rm_tokens');
  await client.query(sql, [tenantId]);
  client.release(true);
}

it('a token is shown as it was stored', async () => {
  expect(await get()).toMatchObject({ data: 'XXXXXXXXXXXX4242' });
  expect((await list()).data).toHaveLength(1);
});

describe('a row whose columns were changed in the database:', () => {
  it.each([
    ['the container', `update token set container = '/mine/' where tenant_id = $1`],
    ['the mask', `update token set mask = '"{{ data }}"' where tenant_id = $1`],
    ['the type', `update token set type = 'token' where tenant_id = $1`],
    ['the expiry', `update token set expires_at = null, expires_at_text = null where tenant_id = $1`],
    ['the time it expires at', `update token set expires_at = '2040-01-01' where tenant_id = $1`],
    ['the end of its cvc', `update token set cvc_expires_at = '2040-01-01' where tenant_id = $1`],
    ['the cvc', `update token set cvc = data where tenant_id = $1`],
    ['the fingerprint expression', `update token set fingerprint_expression = 'x' where tenant_id = $1`],
    ['who set its mask', `update token set set_without_sight = '{"mask":"x"}' where tenant_id = $1`],
    ['who created it', `update token set created_by = 'x' where tenant_id = $1`],
    ['the time of its creation', `update token set created_at = '2029-01-01' where tenant_id = $1`],
    ['the time of a change', `update token set modified_at = '2030-01-01' where tenant_id = $1`],
    ['who changed it', `update token set modified_by = 'x' where tenant_id = $1`],
    ['the signature', `update token set signature = null where tenant_id = $1`],
  ])('%s is refused, alone and in a list', async (_what, sql) => {
    await write(sql);
    await expect(get()).rejects.toMatchObject(altered);
    await expect(list()).rejects.toMatchObject(altered);
    await expect(
      vault.call('searchTokens', reader(), { body: { query: `id:"${id}"` } }),
    ).rejects.toMatchObject(altered);
  });

  it('leaves the other tokens readable', async () => {
    await write(`update token set container = '/mine/' where tenant_id = $1`);
    const other = await vault.token(tenantId, { containers: ['/mine/'] });
    await vault.settle();
    const found = vault.call<Token>('getToken', reader(), { params: { id: other } });
    expect(await found).toMatchObject({ data: 'plain text' });
  });
});

it('a token without a signature is shown only while its tenant is being signed', async () => {
  const old = await vault.token(tenantId);
  await vault.settle();
  await write(`update token set signature = null where tenant_id = $1 and type = 'token'`);
  await expect(vault.call<Token>('getToken', reader(), { params: { id: old } })).rejects.toMatchObject(
    altered,
  );
  await vault.age(tenantId);
  expect(await vault.call<Token>('getToken', reader(), { params: { id: old } })).toMatchObject({ id: old });
});
