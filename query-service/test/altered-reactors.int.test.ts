import type { Reactor } from '@token-vault/contracts';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { managerOf, setUpVault, type Vault } from './vault.ts';

let vault: Vault;
let tenantId: string;
let id: string;
beforeAll(async () => {
  vault = await setUpVault();
});
beforeEach(async () => {
  tenantId = await vault.tenant();
  id = await vault.reactor(tenantId, { configuration: { KEY: 'value' } });
  await vault.settle();
});
afterAll(() => vault.end());

const get = () => vault.call<Reactor>('getReactor', managerOf(tenantId), { params: { id } });
const list = () => vault.call<{ data: Reactor[] }>('listReactors', managerOf(tenantId));

async function write(sql: string): Promise<void> {
  const client = await vault.pool.connect();
  await client.query('set search_path = rm_reactors');
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
])('a row of which somebody has changed %s is refused, alone and in a list', async (_what, sql) => {
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
