import { randomUUID } from 'node:crypto';
import {
  ApplicationCreated,
  ApplicationUpdated,
  streams,
  TenantCreated,
  TenantUpdated,
  TokenCreated,
  TokenUpdated,
  type Application,
  type EventName,
  type NewDataOf,
  type VaultEventType,
  type DataOf,
} from '@token-vault/contracts';
import { generateApiKey, hashApiKey } from '@token-vault/crypto';
import { createAuthenticator } from '@token-vault/authentication';
import { createRequestContext } from '@token-vault/operations';
import { KnownRevocations, type ReadModelWatch } from '@token-vault/read-models';
import { silentLogger } from '@token-vault/observability';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createTokenUse } from '../../src/index.ts';
import { signGrants } from '../../src/upgrade/sign-grants.ts';
import { signRecords } from '../../src/upgrade/sign-records.ts';
import { openHouse, type House } from './house.ts';

let house: House;
let tenantId: string;
beforeAll(async () => {
  house = await openHouse();
});
beforeEach(async () => {
  tenantId = (await house.vault.oldTenant()).tenant.id;
});
afterAll(() => house.close());

const rules: DataOf<'ApplicationCreated'>['rules'] = [
  { priority: 1, container: '/', transform: 'reveal', permissions: ['token:read'], description: 'all' },
];

/** Appends an event in the form of a release before signatures. */
async function append<Type extends VaultEventType>(
  stream: string,
  name: EventName<Type>,
  data: NewDataOf<Type>,
) {
  const { principal, clock, log } = house.vault;
  const context = createRequestContext({ principal, traceId: 'old', now: clock.now() });
  await log.append(stream, [context.event(name, data)], 'any');
  await house.settle();
}

async function oldTenant(): Promise<void> {
  const data = { tenant_id: tenantId, name: 'Acme', plan: 'standard' as const, settings: { b: '1', a: '2' } };
  await append(streams.tenant(tenantId), TenantCreated, data);
}

async function oldApplication(): Promise<{ id: string; key: string }> {
  const [id, key] = [randomUUID(), generateApiKey('pvt')];
  const data = { application_id: id, name: 'Shop', type: 'private' as const, permissions: [], rules };
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
const signAll = async () => {
  const { log: store, keyRing, pool, clock } = house.vault;
  const dependencies = { store, keyRing, pool, clock, logger: silentLogger };
  await signRecords(dependencies, new AbortController().signal);
  await house.settle();
  return (await keyRing.hashes(tenantId)).acceptsUnsigned;
};
const authenticate = (key: string) => {
  const { log: store, keyRing, pool, clock } = house.vault;
  const watch: Pick<ReadModelWatch, 'current'> = {
    current: async (read) => (await read(new KnownRevocations(1))).found,
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

it('an attacker that removes signatures of signed records does not get these records signed again', async () => {
  await oldTenant();
  await sign();
  await signAll();
  // A log that begins with a tenant of an older release, and the events of an attacker.
  tenantId = (await house.vault.newTenant()).tenant.id;
  await oldTenant();
  const planted = await oldApplication();
  expect(await sign()).toBe(0);
  await expect(authenticate(planted.key)).rejects.toMatchObject({ code: 'record_altered' });
  const types = (await house.vault.events()).map(({ type }) => type);
  expect(types).toEqual(['TenantCreated', 'ApplicationCreated']);
});

describe('an attacker that gives the stored keys of a tenant the form of an older release', () => {
  const setForm = async () => {
    await house.vault.keyRing.hashes(tenantId);
    await house.vault.pool.query(
      'update key_ring.tenant_index_key set wrapped = set_byte(wrapped, 0, 1) where tenant_id = $1',
      [tenantId],
    );
  };

  it('gets no application signed', async () => {
    tenantId = (await house.vault.newTenant()).tenant.id;
    await oldTenant();
    const planted = await oldApplication();
    await setForm();
    expect(await sign()).toBe(0);
    await expect(authenticate(planted.key)).rejects.toMatchObject({ code: 'record_altered' });
    const types = (await house.vault.events()).map(({ type }) => type);
    expect(types).toEqual(['TenantCreated', 'ApplicationCreated']);
  });

  it('gets no token signed that was moved by a planted event', async () => {
    const { vault } = house;
    await oldTenant();
    await sign();
    expect(await signAll()).toBe(false);
    const { id } = await vault.create({ type: 'token', data: 'x', containers: ['/pci/'] });
    const stream = streams.token(tenantId, id);
    const [event] = await vault.events(stream);
    if (event?.type !== 'TokenCreated') throw new Error('the token was not created');
    await append(stream, TokenUpdated, { ...event.data, containers: ['/low/'], signature: undefined });
    await setForm();
    await signAll();
    expect(await house.typesOf(id)).toEqual(['TokenCreated', 'TokenUpdated']);
  });
});

it('an event that an attacker adds to the log after the tenant is signed never becomes genuine', async () => {
  await oldTenant();
  await oldApplication();
  await sign();
  await signAll();
  const planted = await oldApplication();
  const changed = { tenant_id: tenantId, name: 'Acme', settings: { deduplicate_tokens: 'true' } };
  await append(streams.tenant(tenantId), TenantUpdated, changed);
  expect(await sign()).toBe(0);
  await expect(authenticate(planted.key)).rejects.toMatchObject({ code: 'record_altered' });
  expect((await house.vault.events()).filter(({ type }) => type === 'ApplicationSigned')).toHaveLength(1);
});

it('a change by an authorised caller does not make forged events genuine', async () => {
  await house.vault.newTenant();
  tenantId = house.vault.principal.tenant.id;
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

it('tokens of an older release are accepted until all are signed; after that none is accepted without a signature', async () => {
  await oldTenant();
  const { vault } = house;
  const created = await vault.create({ id: 'signed', type: 'token', data: 'x' });
  const [event] = await vault.events(streams.token(tenantId, created.id));
  if (event?.type !== 'TokenCreated') throw new Error('the token was not created');
  const unsigned = { ...event.data, token_id: 'old', signature: undefined };
  await append(streams.token(tenantId, 'old'), TokenCreated, unsigned);
  await sign();
  const { log: store, keyRing, clock } = vault;
  const transaction = await vault.begin();
  await append(streams.token(tenantId, 'locked'), TokenCreated, { ...unsigned, token_id: 'locked' });
  await vault.remove('locked', { transaction });
  expect(await signAll()).toBe(true);
  expect(await house.typesOf('old')).toEqual(['TokenCreated', 'TokenSigned']);
  expect(await house.typesOf('signed')).toEqual(['TokenCreated']);
  await vault.end('commit', transaction);
  await house.settle();
  expect(await signAll()).toBe(false);
  const use = createTokenUse({ store, keyRing, clock });
  const context = createRequestContext({ principal: vault.principal, traceId: 'new', now: clock.now() });
  const check = (id: string) =>
    use.check({ tokens: new Map([[id, 'args.a']]), ambiguous: new Map(), hasFilters: false }, context);
  await expect(check('old')).resolves.toBeUndefined();
  await append(streams.token(tenantId, 'late'), TokenCreated, { ...unsigned, token_id: 'late' });
  await expect(check('late')).rejects.toMatchObject({ code: 'record_altered' });
});
