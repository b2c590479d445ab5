import { fieldsOf } from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import type { Principal } from '@token-vault/access';
import { KeysAbandoned, streams, type Application, type Reactor, secret } from '@token-vault/contracts';
import type { SealedValue } from '@token-vault/crypto';
import { createExpressions, createInlineWorkers } from '@token-vault/expressions';
import { createAuditTrail, createRequestContext } from '@token-vault/operations';
import { silentLogger } from '@token-vault/observability';
import { beforeEach, describe, expect, it } from 'vitest';
import { systemContext } from '../../src/aggregates/system-context.ts';
import { createCommandHandlers } from '../../src/index.ts';
import { loadReactor } from '../../src/reactors/load.ts';
import { anyone, refusal, useVault, type TestVault } from '../tokens/vault.ts';

const code = 'module.exports = async (req) => ({ raw: req.args });';
const body = { name: 'Pay', code, configuration: { URL: 'https://pay.example', KEY: 'sk_live_marked' } };

let vault: TestVault;
useVault((opened) => (vault = opened));
let manager: Principal;
beforeEach(async () => {
  manager = anyone({
    tenant: vault.principal.tenant,
    applicationType: 'management',
    permissions: ['reactor:read'],
    rules: [],
  });
});

const call = (id: Parameters<TestVault['call']>[0], input: object) => vault.call(id, input, { as: manager });
const create = async (changes: object = {}) =>
  (await call('createReactor', { body: { ...body, ...changes } })).body as Reactor;
const update = async (id: string, changes: object = {}) =>
  (await call('updateReactor', { params: { id }, body: { ...body, ...changes } })).body as Reactor;
const patch = (id: string, patched: object) => call('patchReactor', { params: { id }, body: patched });
const remove = (id: string) => call('deleteReactor', { params: { id } });

async function application(type: Application['type'], expiresAt?: string): Promise<Application> {
  // The maker holds these permissions too (rules.md §6).
  const permissions = type === 'management' ? ['reactor:read'] : ['token:create'];
  const made = { name: `A ${type} one`, type, permissions, expires_at: expiresAt };
  return (await call('createApplication', { body: made })).body as Application;
}

/** The reactor of the log, with its configuration in plaintext. */
async function stored(id: string) {
  const tenantId = manager.tenant.id;
  const events = await vault.events(streams.reactor(tenantId, id));
  const { configuration, ...rest } = fieldsOf(events.at(-1)) as { configuration: SealedValue };
  const place = { tenantId, entity: `reactor:${id}`, field: 'configuration' };
  return { ...rest, configuration: (await vault.keyRing.open(place, configuration)).expose() };
}

describe('a created reactor', () => {
  it('is answered with all its fields', async () => {
    const { id, name, type } = await application('private');
    const reactor = await create({ application: { id } });
    expect(reactor).toEqual({
      id: expect.any(String) as unknown,
      tenant_id: manager.tenant.id,
      ...body,
      application: { id, name, type },
      created_by: 'app',
      created_at: '2030-01-01T00:00:00.000Z',
    });
    expect(await stored(reactor.id)).toMatchObject({ configuration: body.configuration, application_id: id });
  });

  it('has its configuration in the log only sealed', async () => {
    await create();
    expect(JSON.stringify(await vault.events())).not.toContain('sk_live_marked');
  });

  it('is created once, although the request is repeated under its idempotency key', async () => {
    const options = { as: manager, idempotencyKey: 'once' };
    const first = (await vault.call('createReactor', { body }, options)).body as Reactor;
    const second = (await vault.call('createReactor', { body }, options)).body as Reactor;
    expect(second).toEqual(first);
    expect(await vault.events(streams.reactor(manager.tenant.id, first.id))).toHaveLength(1);
  });

  it('has its stored answers, which contain its configuration, end with its keys', async () => {
    const made = await call('createReactor', { body });
    const { id } = made.body as Reactor;
    const updated = await call('updateReactor', { params: { id }, body });
    for (const { endsWith } of [made, updated]) {
      expect(endsWith?.entity).toBe(`reactor:${id}`);
      expect(await endsWith?.isThere()).toBe(true);
    }
    await remove(id);
    expect(await made.endsWith?.isThere()).toBe(false);
  });

  it('may have an application whose id is spelt in capitals', async () => {
    const { id } = await application('public');
    expect((await create({ application: { id: id.toUpperCase() } })).application?.id).toBe(id);
  });
});

it('a reactor with keys abandoned on its stream is invoked at the revision of its content', async () => {
  const { id } = await create();
  const tenantId = manager.tenant.id;
  const context = systemContext(tenantId, 'key-sweep', vault.clock);
  for (const revision of [0, 1]) {
    const abandoned = { entity: `reactor:${id}`, abandoned_key_ids: [randomUUID()] };
    await vault.log.append(
      streams.reactor(tenantId, id),
      [context.event(KeysAbandoned, abandoned)],
      revision,
    );
  }
  const { log: store, keyRing } = vault;
  expect(await loadReactor({ store, keyRing }, tenantId, id)).toMatchObject({ id, revision: 0 });
});

it('a reactor is not changed by a patch that changes nothing; its answer does not tell whether values of the configuration were met', async () => {
  const { id, name, configuration } = await create();
  for (const same of [{}, { name }]) await patch(id, same);
  expect(await vault.events(streams.reactor(manager.tenant.id, id))).toHaveLength(1);
  const guesses = [configuration, {}, { NONE: null }, { KEY: 'guess' }];
  for (const guess of guesses) await patch(id, { configuration: guess });
  expect(await vault.events(streams.reactor(manager.tenant.id, id))).toHaveLength(1 + guesses.length);
});

describe('refused requests', () => {
  const pairs = Object.fromEntries(Array.from({ length: 26 }, (_, index) => [`K${index}`, 'v']));
  it.each<[string, object]>([
    ['no name', { name: undefined }],
    ['a name of 201 characters', { name: 'x'.repeat(201) }],
    ['no code', { code: undefined }],
    ['code of 50,001 characters', { code: ' '.repeat(50_001) }],
    ['no configuration', { configuration: undefined }],
    ['a configuration of 26 pairs', { configuration: pairs }],
    ['a number in the configuration', { configuration: { A: 1 } }],
    ['an application that is no UUID', { application: { id: 'x' } }],
  ])('on create and on replacement: %s', async (_what, changes) => {
    await expect(create(changes)).rejects.toMatchObject(refusal('validation_failed'));
    const { id } = await create();
    await expect(update(id, changes)).rejects.toMatchObject(refusal('validation_failed'));
  });

  it('code that does not compile, everywhere, naming the line', async () => {
    const { id } = await create();
    const bad = { code: 'const a = 1;\nconst = 2;' };
    const expected = { code: 'code_invalid', message: expect.stringContaining('line 2') as string };
    await expect(create(bad)).rejects.toMatchObject(expected);
    await expect(update(id, bad)).rejects.toMatchObject(expected);
    await expect(patch(id, bad)).rejects.toMatchObject(expected);
    expect(await stored(id)).toMatchObject({ code });
  });

  it('code that the sandbox refuses', async () => {
    const handlers = createCommandHandlers({
      store: vault.log,
      keyRing: vault.keyRing,
      expressions: createExpressions(createInlineWorkers()),
      audit: createAuditTrail(vault.log),
      clock: vault.clock,
      logger: silentLogger,
      compileCode: (given, tenantId) =>
        Promise.resolve({ ok: false, message: `no function in ${given.length} of ${tenantId}`, line: 7 }),
    });
    const context = createRequestContext({ principal: manager, traceId: 'trace', now: vault.clock.now() });
    const given = { ...body, application: undefined, configuration: secret(body.configuration) };
    const request = { params: undefined, query: undefined, body: given };
    await expect(handlers.createReactor?.(request, context)).rejects.toThrow(
      `line 7: no function in ${code.length} of ${manager.tenant.id}`,
    );
  });

  it('an application that is absent, of another tenant, deleted, expired or management', async () => {
    const deleted = await application('private');
    await call('deleteApplication', { params: { id: deleted.id } });
    const expiring = await application('private', '2030-01-01T00:00:01Z');
    const managing = await application('management');
    const ids = [randomUUID(), deleted.id, expiring.id, managing.id];
    vault.clock.advance(1000);
    const { id } = await create();
    for (const applicationId of ids) {
      const reference = { application: { id: applicationId } };
      const expected = refusal('validation_failed', 'application.id');
      await expect(create(reference)).rejects.toMatchObject(expected);
      await expect(update(id, reference)).rejects.toMatchObject(expected);
      await expect(patch(id, reference)).rejects.toMatchObject(expected);
    }
    const foreign = await application('private');
    await vault.newTenant();
    manager = { ...manager, tenant: vault.principal.tenant };
    await expect(create({ application: { id: foreign.id } })).rejects.toMatchObject(
      refusal('validation_failed', 'application.id'),
    );
  });

  it('every change of a reactor of another tenant', async () => {
    const { id } = await create();
    await vault.newTenant();
    manager = { ...manager, tenant: vault.principal.tenant };
    for (const change of [() => update(id), () => patch(id, { name: 'x' }), () => remove(id)])
      await expect(change()).rejects.toMatchObject(refusal('not_found'));
  });
});

describe('a replaced reactor', () => {
  it('has the given fields, and no application when none was given', async () => {
    const { id: applicationId } = await application('public');
    const { id } = await create({ application: { id: applicationId } });
    vault.clock.advance(1000);
    const replaced = await update(id, { name: 'Other', configuration: { A: 'b' } });
    expect(replaced).toMatchObject({ name: 'Other', configuration: { A: 'b' } });
    expect(replaced).toMatchObject({ modified_by: 'app', modified_at: '2030-01-01T00:00:01.000Z' });
    expect(replaced.application).toBeUndefined();
    expect(await stored(id)).not.toHaveProperty('application_id');
  });

  it('keeps its one data key', async () => {
    const { id } = await create();
    await update(id, { configuration: { A: 'b' } });
    expect(await vault.keys()).toEqual([`reactor:${id} configuration`]);
  });
});

describe('a patched reactor', () => {
  it.each<[string, object, object]>([
    ['its name alone', { name: 'New' }, { name: 'New', code }],
    ['its code alone', { code: 'exports.a = 1;' }, { name: 'Pay', code: 'exports.a = 1;' }],
    ['one more pair', { configuration: { A: 'b' } }, { configuration: { ...body.configuration, A: 'b' } }],
    [
      'a pair taken away',
      { configuration: { KEY: null } },
      { configuration: { URL: 'https://pay.example' } },
    ],
    ['all pairs taken away', { configuration: null }, { configuration: {} }],
    ['nothing', {}, body],
  ])('changes in %s', async (_what, given, expected) => {
    const { id } = await create();
    const answer = await patch(id, given);
    expect(answer.body).toBeUndefined();
    expect(await stored(id)).toMatchObject(expected);
  });

  it('keeps, changes and loses its application', async () => {
    const [first, second] = [await application('private'), await application('public')];
    const { id } = await create({ application: { id: first.id } });
    await patch(id, { name: 'x' });
    expect(await stored(id)).toMatchObject({ application_id: first.id });
    await patch(id, { application: { id: second.id } });
    expect(await stored(id)).toMatchObject({ application_id: second.id });
    await patch(id, { application: null });
    expect(await stored(id)).not.toHaveProperty('application_id');
  });

  it('never has more than 25 pairs, also after several patches', async () => {
    const configuration = Object.fromEntries(Array.from({ length: 25 }, (_, index) => [`K${index}`, 'v']));
    const { id } = await create({ configuration });
    await expect(patch(id, { configuration: { K25: 'v' } })).rejects.toMatchObject(
      refusal('validation_failed', 'configuration'),
    );
    await patch(id, { configuration: { K0: null, K25: 'v' } });
    expect((await stored(id)).configuration).toHaveProperty('K25');
  });

  it('keeps each of many changes made at once', async () => {
    const { id } = await create({ configuration: {} });
    const names = ['A', 'B', 'C', 'D'];
    await Promise.all(names.map((name) => patch(id, { configuration: { [name]: name } })));
    expect((await stored(id)).configuration).toEqual({ A: 'A', B: 'B', C: 'C', D: 'D' });
  });
});

describe('a deleted reactor', () => {
  it('cannot be read any more, in any version, nor changed', async () => {
    const { id } = await create();
    await update(id, { configuration: { A: 'b' } });
    const sealed = (await vault.events(streams.reactor(manager.tenant.id, id))).map(
      (event) => fieldsOf(event).configuration as SealedValue,
    );
    await remove(id);
    expect(await vault.keys()).toEqual([]);
    const place = { tenantId: manager.tenant.id, entity: `reactor:${id}`, field: 'configuration' };
    for (const value of sealed)
      await expect(vault.keyRing.open(place, value)).rejects.toMatchObject({ code: 'key_destroyed' });
    for (const change of [() => update(id), () => patch(id, { name: 'x' }), () => remove(id)])
      await expect(change()).rejects.toMatchObject(refusal('not_found'));
  });

  it('can be deleted during a change, and nothing of the change remains', async () => {
    const { id } = await create();
    const outcomes = await Promise.allSettled([
      patch(id, { configuration: { A: 'b' } }),
      remove(id),
      update(id, { configuration: { C: 'd' } }),
    ]);
    expect(outcomes[1].status).toBe('fulfilled');
    expect(await vault.keys()).toEqual([]);
    const events = await vault.events(streams.reactor(manager.tenant.id, id));
    expect(events.at(-1)?.type).toBe('ReactorDeleted');
  });
});
