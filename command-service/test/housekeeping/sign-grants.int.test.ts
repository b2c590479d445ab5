import { randomUUID } from 'node:crypto';
import {
  ApplicationCreated,
  ApplicationUpdated,
  streams,
  TenantCreated,
  TenantUpdated,
  type Application,
} from '@token-vault/contracts';
import { generateApiKey, hashApiKey } from '@token-vault/crypto';
import { createAuthenticator, createRequestContext, silentLogger } from '@token-vault/service-kit';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { signGrants } from '../../src/upgrade/sign-grants.ts';
import { openHouse, type House } from './house.ts';

let house: House;
let tenantId: string;
beforeAll(async () => {
  house = await openHouse();
});
beforeEach(async () => {
  tenantId = (await house.vault.newTenant()).tenant.id;
});
afterAll(() => house.close());

const rules = [
  { priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'], description: 'all' },
];

/** Appends as a release before signatures did. */
async function append(stream: string, definition: { type: string; version: number }, data: object) {
  const { principal, clock, log } = house.vault;
  const context = createRequestContext({ principal, traceId: 'old', now: clock.now() });
  await log.append(stream, [context.event(definition, data)], 'any');
  await house.settle();
}

async function oldTenant(): Promise<void> {
  const data = { tenant_id: tenantId, name: 'Acme', plan: 'standard', settings: { b: '1', a: '2' } };
  await append(streams.tenant(tenantId), TenantCreated, data);
}

async function oldApplication(): Promise<{ id: string; key: string }> {
  const [id, key] = [randomUUID(), generateApiKey('pvt')];
  const data = { application_id: id, name: 'Shop', type: 'private', permissions: [], rules };
  await append(streams.application(tenantId, id), ApplicationCreated, { ...data, key_hash: hashApiKey(key) });
  return { id, key };
}

const sign = async () => {
  const { log: store, keyRing, pool, clock } = house.vault;
  const dependencies = { store, keyRing, pool, clock, logger: silentLogger };
  const signed = await signGrants(dependencies, new AbortController().signal);
  await house.settle();
  return signed;
};
const authenticate = (key: string) => {
  const { log: store, keyRing, pool, clock } = house.vault;
  const watch = {
    current: async <Found>(read: (generation: string) => Found | Promise<Found>) => read('1'),
  };
  return createAuthenticator({ store, keyRing, pool, clock, watch }).authenticate(key);
};

it('keys of an older release work once they are signed, and not before', async () => {
  await oldTenant();
  const { id, key } = await oldApplication();
  await expect(authenticate(key)).rejects.toMatchObject({ code: 'unavailable' });
  expect(await sign()).toBe(1);
  expect(await authenticate(key)).toMatchObject({
    kind: 'authenticated',
    principal: { applicationId: id, rules, tenant: { settings: { a: '2', b: '1' } } },
  });
  expect(await sign()).toBe(0);
});

it('what is planted in the log once the tenant is signed never becomes genuine', async () => {
  await oldTenant();
  await oldApplication();
  await sign();
  const planted = await oldApplication();
  const changed = { tenant_id: tenantId, name: 'Acme', settings: { deduplicate_tokens: 'true' } };
  await append(streams.tenant(tenantId), TenantUpdated, changed);
  expect(await sign()).toBe(0);
  await expect(authenticate(planted.key)).rejects.toMatchObject({ code: 'record_altered' });
  expect((await house.vault.events()).filter(({ type }) => type === 'ApplicationSigned')).toHaveLength(1);
});

it('a change made by who may change it does not make forged events genuine', async () => {
  const body = { name: 'Shop', type: 'private', permissions: ['token:read'], rules: [] };
  const { id } = (await house.vault.call('createApplication', { body })).body as Application;
  const { principal, clock, log } = house.vault;
  const context = createRequestContext({ principal, traceId: 'thief', now: clock.now() });
  const forged = { application_id: id, name: 'Shop', permissions: [], rules };
  await log.append(streams.application(tenantId, id), [context.event(ApplicationUpdated, forged)], 'any');
  const altered = { code: 'record_altered' };
  await expect(house.vault.call('regenerateApplicationKey', { params: { id } })).rejects.toMatchObject(
    altered,
  );
  await expect(
    house.vault.call('updateApplication', {
      params: { id },
      body: { name: 'Shop', permissions: ['token:read'] },
    }),
  ).rejects.toMatchObject(altered);
  await expect(house.vault.call('deleteApplication', { params: { id } })).resolves.toBeDefined();
});
