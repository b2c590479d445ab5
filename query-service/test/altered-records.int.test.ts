import type { Proxy, Reactor } from '@token-vault/contracts';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { managerOf, setUpVault, type Vault } from './vault.ts';

let vault: Vault;
let tenantId: string;
let id: string;
let proxyId: string;
let applicationId: string;
let tokenId: string;
beforeAll(async () => {
  vault = await setUpVault();
});
beforeEach(async () => {
  tenantId = await vault.tenant();
  id = await vault.reactor(tenantId, { configuration: { KEY: 'value' } });
  proxyId = await vault.proxy(tenantId, { KEY: 'value' });
  applicationId = await vault.application(tenantId);
  tokenId = await vault.token(tenantId);
  await vault.settle();
});
afterAll(() => vault.end());

const get = () => vault.call<Reactor>('getReactor', managerOf(tenantId), { params: { id } });
const list = () => vault.call<{ data: Reactor[] }>('listReactors', managerOf(tenantId));

async function write(sql: string): Promise<void> {
  const client = await vault.pool.connect();
  await client.query('set search_path = rm_reactors, rm_proxies, rm_applications, rm_tenants, rm_tokens');
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

/** Every answer that shows an application. */
const shownApplications = (ofTenant = tenantId) => {
  const params = { id: applicationId };
  return (
    [
      ['getApplication', { params }],
      ['listApplications', {}],
      ['listApplicationKeys', { params }],
      ['getApplicationKey', { params: { ...params, key_id: applicationId } }],
      ['getAccessMatrix', {}],
      ['explainAccess', { params, query: { token_id: tokenId } }],
    ] as const
  ).map(([operation, request]) => {
    const caller = { ...managerOf(ofTenant), permissions: ['application:read', 'log:read'] as const };
    return vault.call(operation, { ...caller, permissions: [...caller.permissions] }, request);
  });
};

const refused = { status: 'rejected', reason: { code: 'record_altered', status: 500 } };

async function allAreRefused(shown: readonly Promise<unknown>[]): Promise<void> {
  const outcomes = await Promise.allSettled(shown);
  expect(outcomes).toMatchObject(Array.from(outcomes, () => refused));
}

it('applications are shown as they were stored', async () => {
  const shown = await Promise.all(shownApplications());
  expect(JSON.stringify(shown[0])).toContain(applicationId);
});

const grant = `[{"priority":1,"container":"/","transform":"reveal","permissions":["token:read"]}]`;

it.each([
  ['the name', `update application set name = 'x' where tenant_id = $1`],
  ['the rules', `update application set rules = '${grant}' where tenant_id = $1`],
  ['the permissions', `update application set permissions = '["token:update"]' where tenant_id = $1`],
  ['the type', `update application set type = 'management' where tenant_id = $1`],
  ['the hash of its key', `update application set key_hash = repeat('a', 64) where tenant_id = $1`],
  ['the end', `update application set expires_at_text = '2100-01-01T00:00:00Z' where tenant_id = $1`],
  ['the signature', `update application set signature = null where tenant_id = $1`],
])('an application with %s changed in the database is shown in no answer', async (_what, sql) => {
  await write(sql);
  await allAreRefused(shownApplications());
});

it('an application whose row was moved to another tenant is shown in no answer there', async () => {
  const other = await vault.tenant();
  await vault.settle();
  await vault.pool.query('update rm_applications.application set tenant_id = $1 where id = $2', [
    other,
    applicationId,
  ]);
  await allAreRefused(shownApplications(other));
});

it.each([
  [
    'the settings',
    `update tenant set settings = '{"proxy_destinations":"https://evil.example"}' where id = $1`,
  ],
  ['the plan', `update tenant set plan = 'enterprise' where id = $1`],
])('a tenant with %s changed in the database is not shown', async (_what, sql) => {
  await write(sql);
  await expect(vault.call('getTenant', managerOf(tenantId))).rejects.toMatchObject({
    code: 'record_altered',
  });
});

it('the access to a token with a container changed in the database is not explained', async () => {
  await write(`update token set container = '/pci/' where tenant_id = $1`);
  const [explained] = (await Promise.allSettled(shownApplications())).slice(-1);
  expect(explained).toMatchObject(refused);
});
