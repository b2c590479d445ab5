import { fieldsOf } from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import type { Principal } from '@token-vault/access';
import {
  newEvent,
  newId,
  ProxyCreated,
  ProxyUpdated,
  streams,
  type Application,
  type ApplicationKey,
  type Proxy,
} from '@token-vault/contracts';
import { hashApiKey, type SealedValue } from '@token-vault/crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createProxyFinder } from '../../src/proxies/load.ts';
import { anyone, openVault, refusal, type TestVault } from '../tokens/vault.ts';

const code = 'module.exports = async (req) => ({ raw: req.args });';
const body = {
  name: 'Pay',
  destination: 'https://Pay.example:443/v1/',
  destinations: ['https://*.pay.example'],
  request: { code },
  configuration: { KEY: 'sk_live_marked' },
};

let vault: TestVault;
let manager: Principal;
let application: Application;
beforeAll(async () => {
  vault = await openVault();
  vault.clock.set('2030-01-01T00:00:00Z');
  await vault.newTenant();
  const { tenant } = vault.principal;
  manager = anyone({ tenant, applicationType: 'management', permissions: ['proxy:read'], rules: [] });
  const made = { name: 'A', type: 'private', permissions: ['token:use'] };
  application = (await call('createApplication', { body: made })).body as Application;
});
afterAll(() => vault.close());

const call = (id: Parameters<TestVault['call']>[0], input: object) => vault.call(id, input, { as: manager });
const create = async (changes: object = {}) =>
  (await call('createProxy', { body: { ...body, ...changes } })).body as Proxy;
const withApplication = () => create({ application: { id: application.id } });
const addKey = async (id: string, options: object = {}) =>
  (await call('createProxyKey', { params: { id }, body: options })).body as ApplicationKey;
const patch = (id: string, patched: object) => call('patchProxy', { params: { id }, body: patched });
const eventsOf = (id: string) => vault.events(streams.proxy(manager.tenant.id, id));

/** The proxy of the log, with its configuration in plaintext. */
async function stored(id: string) {
  const { configuration, ...rest } = fieldsOf((await eventsOf(id)).at(-1)) as { configuration: SealedValue };
  const place = { tenantId: manager.tenant.id, entity: `proxy:${id}`, field: 'configuration' };
  return { ...rest, configuration: (await vault.keyRing.open(place, configuration)).expose() };
}

it('a proxy whose stream has the events of another is neither used nor changed', async () => {
  const { id } = await withApplication();
  const other = randomUUID();
  const copied = (await eventsOf(id)).map((event) => ({ ...event, id: randomUUID() }));
  await vault.log.append(streams.proxy(manager.tenant.id, other), copied, 'no-stream');
  const altered = { code: 'record_altered' };
  const { log: store, keyRing } = vault;
  await expect(createProxyFinder({ store, keyRing })(manager.tenant.id, other)).rejects.toMatchObject(
    altered,
  );
  await expect(addKey(other)).rejects.toMatchObject(altered);
  await expect(patch(other, { name: 'x' })).rejects.toMatchObject(altered);
});

describe('the deletion of a key that an attacker hides in the log for a moment', () => {
  it.each([
    ['TokensRead', { operation: 'read', tokens: [] }],
    ['KeysAbandoned', { entity: 'proxy', abandoned_key_ids: [] }],
  ])('counts as soon as it is back, hidden by %s', async (type, data) => {
    const { id } = await withApplication();
    const { id: key_id } = await addKey(id);
    await call('deleteProxyKey', { params: { id, key_id } });
    const last = (await eventsOf(id)).at(-1)?.id;
    let isHidden = true;
    const store: TestVault['log'] = {
      ...vault.log,
      async *readStream(...range) {
        for await (const event of vault.log.readStream(...range))
          yield isHidden && event.id === last ? ({ ...event, type, data } as unknown as typeof event) : event;
      },
    };
    const find = createProxyFinder({ store, keyRing: vault.keyRing });
    await find(manager.tenant.id, id).catch(() => undefined);
    isHidden = false;
    expect((await find(manager.tenant.id, id)).details.keys).toEqual([]);
  });
});

describe('a created proxy', () => {
  it('is answered with all its fields, its destination in one form', async () => {
    const { id, name, type } = application;
    const proxy = await create({ application: { id: id.toUpperCase() } });
    expect(proxy).toEqual({
      id: expect.any(String) as unknown,
      tenant_id: manager.tenant.id,
      ...body,
      destination: 'https://pay.example/v1',
      require_auth: true,
      keys: [],
      application: { id, name, type },
      created_by: 'app',
      created_at: '2030-01-01T00:00:00.000Z',
    });
    expect(JSON.stringify(await eventsOf(proxy.id))).not.toContain('sk_live_marked');
    expect(await stored(proxy.id)).toMatchObject({ configuration: body.configuration });
  });

  it('is created once, although the request is repeated under its idempotency key', async () => {
    const options = { as: manager, idempotencyKey: 'once' };
    const first = (await vault.call('createProxy', { body }, options)).body as Proxy;
    expect((await vault.call('createProxy', { body }, options)).body).toEqual(first);
    expect(await eventsOf(first.id)).toHaveLength(1);
  });

  it('ends, with its keys and the stored answers that hold its configuration', async () => {
    const made = await call('createProxy', { body });
    const { id } = made.body as Proxy;
    expect(made.endsWith?.entity).toBe(`proxy:${id}`);
    await call('deleteProxy', { params: { id } });
    expect(await made.endsWith?.isThere()).toBe(false);
    const { configuration } = fieldsOf((await eventsOf(id))[0]) as { configuration: SealedValue };
    const place = { tenantId: manager.tenant.id, entity: `proxy:${id}`, field: 'configuration' };
    await expect(vault.keyRing.open(place, configuration)).rejects.toMatchObject({ code: 'key_destroyed' });
    await expect(patch(id, { name: 'x' })).rejects.toMatchObject(refusal('not_found'));
  });

  it('is not signed again when it was altered in the log', async () => {
    const { id } = await create();
    const stream = streams.proxy(manager.tenant.id, id);
    const [event] = await eventsOf(id);
    if (event?.type !== ProxyCreated.type) throw new Error('there is no proxy');
    const data = { ...event.data, destination: 'https://evil.example' };
    await vault.log.append(stream, [newEvent(ProxyUpdated, data, { ...event, id: newId() })], 'any');
    await expect(patch(id, { name: 'x' })).rejects.toMatchObject({ code: 'record_altered' });
  });
});

describe('refused on create and on replacement', () => {
  it.each<[string, object]>([
    ['no name', { name: undefined }],
    ['no destination', { destination: undefined }],
    ['a destination of another scheme', { destination: 'ftp://pay.example' }],
    ['a destination with a user', { destination: 'https://a:b@pay.example' }],
    ['a destination with a query', { destination: 'https://pay.example/?a=b' }],
    ['a destination with a fragment', { destination: 'https://pay.example/#a' }],
    ['a destination with a step out', { destination: 'https://pay.example/a/%2E%2e/b' }],
    ['a destination with an expression', { destination: 'https://pay.example/{{ a }}' }],
    ['a destination with a line end', { destination: 'https://pay.example/\r\nx' }],
    ['a destination with a backslash', { destination: 'https://pay.example\\@evil.example' }],
    ['a destination in other letters', { destination: 'https://pаy.example' }],
    ['a list that holds a path', { destinations: ['https://pay.example/path'] }],
    ['a list with two destinations in one', { destinations: ['https://a.example https://b.example'] }],
    ['a transform without code', { response: {} }],
    ['an application that is not there', { application: { id: randomUUID() } }],
    ['no need of a key, and no application', { require_auth: false }],
  ])('%s', async (_what, changes) => {
    await expect(create(changes)).rejects.toMatchObject(refusal('validation_failed'));
    const { id } = await create();
    const replacing = call('updateProxy', { params: { id }, body: { ...body, ...changes } });
    await expect(replacing).rejects.toMatchObject(refusal('validation_failed'));
    expect(await eventsOf(id)).toHaveLength(1);
  });

  it.each(['request', 'response'])('code of a %s that does not compile', async (name) => {
    const bad = { [name]: { code: 'const a = 1;\nconst = 2;' } };
    await expect(create(bad)).rejects.toMatchObject({ code: 'code_invalid' });
    const { id } = await create();
    await expect(patch(id, bad)).rejects.toMatchObject({ code: 'code_invalid' });
  });
});

it('a proxy is not changed by a patch that changes nothing; its answer does not tell whether values of the configuration were met', async () => {
  const { id, name, configuration } = await create();
  for (const same of [{}, { name }]) await patch(id, same);
  expect(await eventsOf(id)).toHaveLength(1);
  const guesses = [configuration, {}, { NONE: null }, { KEY: 'guess' }];
  for (const guess of guesses) await patch(id, { configuration: guess });
  expect(await eventsOf(id)).toHaveLength(1 + guesses.length);
});

describe('a changed proxy', () => {
  it('has the content that the merge patch gives', async () => {
    const { id } = await withApplication();
    await patch(id, { configuration: { KEY: null, NEW: 'v' }, response: { code }, destinations: null });
    expect(await stored(id)).toMatchObject({
      configuration: { NEW: 'v' },
      request_code: code,
      response_code: code,
      destinations: [],
      application_id: application.id,
    });
    await patch(id, { request: null, response: {}, application: null, configuration: null });
    const after = await stored(id);
    expect(after).toMatchObject({ configuration: {}, response_code: code });
    expect(after).not.toHaveProperty('request_code');
    expect(after).not.toHaveProperty('application_id');
    await expect(patch(id, { request: {} })).rejects.toMatchObject(refusal('validation_failed'));
  });

  it('is replaced as a whole, except its keys', async () => {
    const { id } = await withApplication();
    const { id: keyId } = await addKey(id);
    const replacement = {
      name: 'N',
      destination: 'http://other.example',
      application: { id: application.id },
    };
    const { body: replaced } = await call('updateProxy', { params: { id }, body: replacement });
    expect(replaced).toMatchObject({ ...replacement, configuration: {}, require_auth: true });
    expect(replaced).toHaveProperty('keys.0.id', keyId);
    expect(replaced).not.toHaveProperty('keys.0.hash');
    expect(replaced).not.toHaveProperty('request.code');
  });
});

describe('a key of a proxy', () => {
  it('is shown once, and stored as a hash', async () => {
    const { id } = await withApplication();
    const made = await addKey(id, { expires_at: '2031-01-01T00:00' });
    expect(made.key).toMatch(/^key_prx_/);
    expect(made.expires_at).toBe('2031-01-01T00:00:00Z');
    const { key = '' } = made;
    const events = await eventsOf(id);
    expect(JSON.stringify(events)).not.toContain(key);
    expect(fieldsOf(events.at(-1))).toMatchObject({ keys: [{ id: made.id, hash: hashApiKey(key) }] });
  });

  it('is replaced by a new key when the request is repeated because its answer was lost', async () => {
    const { id } = await withApplication();
    const options = { as: manager, idempotencyKey: randomUUID() };
    await vault.call('createProxyKey', { params: { id }, body: {} }, options);
    const again = (await vault.call('createProxyKey', { params: { id }, body: {} }, options)).body;
    const { keys } = fieldsOf((await eventsOf(id)).at(-1)) as { keys: { hash: string }[] };
    expect(keys.map(({ hash }) => hash)).toEqual([hashApiKey((again as { key: string }).key)]);
  });

  it('is deleted once; a repeat confirms the deletion and appends nothing', async () => {
    const { id } = await withApplication();
    const { id: key_id } = await addKey(id);
    const remove = (key = key_id) => call('deleteProxyKey', { params: { id, key_id: key } });
    const { position } = await remove();
    const count = (await eventsOf(id)).length;
    expect(await remove()).toMatchObject({ position, ifConfirmedBefore: { code: 'not_found' } });
    expect(await eventsOf(id)).toHaveLength(count);
    const unknown = '00000000-0000-4000-8000-0000000000ff';
    await expect(remove(unknown)).rejects.toMatchObject(refusal('not_found'));
  });
});
