import type { Proxy, Reactor } from '@token-vault/contracts';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { managerOf, setUpVault, type Vault } from './vault.ts';

let vault: Vault;
let tenantId: string;
let id: string;
let proxyId: string;
beforeAll(async () => {
  vault = await setUpVault();
});
beforeEach(async () => {
  tenantId = await vault.tenant();
  id = await vault.reactor(tenantId, { configuration: { KEY: 'value' } });
  proxyId = await vault.proxy(tenantId, { KEY: 'value' });
  await vault.settle();
});
afterAll(() => vault.end());

const get = () => vault.call<Reactor>('getReactor', managerOf(tenantId), { params: { id } });
const list = () => vault.call<{ data: Reactor[] }>('listReactors', managerOf(tenantId));

async function write(sql: string): Promise<void> {
  const client = await vault.pool.connect();
  await client.query('set search_path = rm_reactors, rm_proxies');
  await client.query(sql, [tenantId]);
  client.release(true);
}

it('a reactor is shown as it was stored', async () => {
  expect(await get()).toMatchObject({ id, configuration: { KEY: 'value' } });
  expect((await list()).data).toHaveLength(1);
});

it.each([
  ['the name', `update reactor set name = 'x' where tenant_id = $1`],
  ['the code', `update reactor set code = 'module.exports = steal' where tenant_id = $1`],
  ['the application', `update reactor set application_id = gen_random_uuid() where tenant_id = $1`],
  ['the configuration', `update reactor set configuration = configuration || 'A' where tenant_id = $1`],
  ['the signature', `update reactor set signature = null where tenant_id = $1`],
])('a row with %s changed in the database is refused, alone and in a list', async (_what, sql) => {
  await write(sql);
  const altered = { code: 'record_altered', status: 500 };
  await expect(get()).rejects.toMatchObject(altered);
  await expect(list()).rejects.toMatchObject(altered);
});

it('a row without a signature is shown while the records of its tenant are being signed', async () => {
  await write(`update reactor set signature = null where tenant_id = $1`);
  await vault.age(tenantId);
  expect(await get()).toMatchObject({ id });
});

const getProxy = () => vault.call<Proxy>('getProxy', managerOf(tenantId), { params: { id: proxyId } });
const listProxies = () => vault.call<{ data: Proxy[] }>('listProxies', managerOf(tenantId));

it('a proxy is shown as it was stored, in its tenant', async () => {
  expect(await getProxy()).toMatchObject({ id: proxyId, configuration: { KEY: 'value' }, keys: [] });
  expect((await listProxies()).data).toHaveLength(1);
  const stranger = managerOf(await vault.tenant());
  await expect(vault.call('getProxy', stranger, { params: { id: proxyId } })).rejects.toMatchObject({
    code: 'not_found',
  });
  expect((await vault.call<{ data: Proxy[] }>('listProxies', stranger)).data).toEqual([]);
});

it.each([
  ['the destination', `update proxy set destination = 'https://evil.example' where tenant_id = $1`],
  ['the list', `update proxy set destinations = '["https://evil.example"]' where tenant_id = $1`],
  ['a transform', `update proxy set response_code = 'module.exports = steal' where tenant_id = $1`],
  ['the need of a key', `update proxy set require_auth = false where tenant_id = $1`],
  ['the application', `update proxy set application_id = gen_random_uuid() where tenant_id = $1`],
  ['the keys', `update proxy set keys = '[{"id":"x","hash":"y"}]' where tenant_id = $1`],
  ['the signature', `update proxy set signature = 'm1.0.${'A'.repeat(22)}' where tenant_id = $1`],
])('a proxy with %s changed in the database is refused, alone and in a list', async (_what, sql) => {
  await write(sql);
  const altered = { code: 'record_altered', status: 500 };
  await expect(getProxy()).rejects.toMatchObject(altered);
  await expect(listProxies()).rejects.toMatchObject(altered);
});
