import { fieldsOf } from '@token-vault/test-support';
import { hashApiKey } from '@token-vault/crypto';
import { randomUUID } from 'node:crypto';
import { streams, type Application } from '@token-vault/contracts';
import { describe, expect, it } from 'vitest';
import { refusal, useVault, type CallOptions, type TestVault } from '../tokens/vault.ts';

let vault: TestVault;
useVault((opened) => (vault = opened));

const rule = {
  description: 'd',
  priority: 1,
  container: '/PCI/',
  transform: 'mask',
  permissions: ['token:read'],
};
const body = { name: 'Shop', type: 'private', permissions: ['token:create'], rules: [rule] };
const absent = refusal('not_found');
const create = async (changes: object = {}, options?: CallOptions): Promise<Application> =>
  (await vault.call('createApplication', { body: { ...body, ...changes } }, options)).body as Application;
const on = async (
  id: string,
  operation: 'updateApplication' | 'regenerateApplicationKey',
  changes: object = {},
) =>
  (
    await vault.call(operation, {
      params: { id },
      body: { name: 'Till', permissions: ['token:read'], ...changes },
    })
  ).body as Application;
const remove = (id: string) => vault.call('deleteApplication', { params: { id } });

describe('an application', () => {
  it('is shown with its key once, and the log has only the hash', async () => {
    const { key = '', ...rest } = await create();
    expect(key).toMatch(/^key_pvt_[1-9A-HJ-NP-Za-km-z]{22,}$/);
    expect(rest).toMatchObject({ name: 'Shop', type: 'private', rules: [{ ...rule, container: '/pci/' }] });
    const log = JSON.stringify(await vault.events());
    expect(log).not.toContain(key);
    expect(log).toContain(hashApiKey(key));
  });

  it.each([
    ['public', 'pub', 'token:create'],
    ['management', 'mgt', 'log:read'],
  ])('%s has a key of its kind, also when that is made again', async (type, kind, permission) => {
    vault.principal = { ...vault.principal, permissions: ['log:read'] };
    const first = await create({ type, permissions: [permission], rules: [] });
    const second = await on(first.id, 'regenerateApplicationKey');
    for (const { key } of [first, second]) expect(key).toMatch(new RegExp(`^key_${kind}_`));
    expect(second.key).not.toBe(first.key);
  });

  it.each(['updateApplication', 'regenerateApplicationKey'] as const)(
    'whose stream has the events of another is not changed: %s',
    async (operation) => {
      const { id } = await create();
      const copied = await vault.events(streams.application(vault.principal.tenant.id, id));
      const other = randomUUID();
      const stream = streams.application(vault.principal.tenant.id, other);
      await vault.log.append(
        stream,
        copied.map((event) => ({ ...event, id: randomUUID() })),
        'no-stream',
      );
      await expect(on(other, operation)).rejects.toMatchObject(refusal('record_altered'));
      await expect(remove(other)).rejects.toMatchObject(refusal('record_altered'));
    },
  );

  it('is replaced as a whole, except its type and expiry', async () => {
    const { id } = await create({ expires_at: '2030-01-02T00:00:00' });
    const changed = await on(id, 'updateApplication');
    expect(changed).toMatchObject({
      name: 'Till',
      type: 'private',
      permissions: ['token:read'],
      rules: [],
      modified_by: 'app',
    });
    expect(changed).toMatchObject({ expires_at: '2030-01-02T00:00:00Z' });
    expect(changed.key).toBeUndefined();
  });

  it.each(['2030-01-02T00:00:00.123+05:30', '2030-01-02T00:00'])('takes the expiry %s', async (at) => {
    expect((await create({ expires_at: at })).expires_at).toMatch(/^2030-01-02T00:00/);
  });

  it('is not found when it is deleted, expired, or of another tenant', async () => {
    const deleted = await create();
    await remove(deleted.id);
    const expired = await create({ expires_at: '2030-01-01T00:00:01Z' });
    vault.clock.advance(1000);
    const foreign = await create();
    await expect(on(foreign.id, 'updateApplication')).resolves.toBeDefined();
    await vault.newTenant();
    for (const { id } of [deleted, expired, foreign]) {
      await expect(on(id, 'updateApplication')).rejects.toMatchObject(absent);
      await expect(on(id, 'regenerateApplicationKey')).rejects.toMatchObject(absent);
      await expect(remove(id)).rejects.toMatchObject(absent);
    }
  });

  it('cannot have permissions that its type does not allow', async () => {
    await expect(create({ permissions: ['log:read'] })).rejects.toMatchObject(
      refusal('validation_failed', 'permissions.0'),
    );
    const { id } = await create();
    await expect(on(id, 'updateApplication', { permissions: ['reactor:read'] })).rejects.toMatchObject(
      refusal('validation_failed', 'permissions.0'),
    );
  });

  it('created again under its idempotency key after a lost answer is one application, with a valid key', async () => {
    vault.faults.decide = () => 'after';
    await expect(create({}, { idempotencyKey: 'k' })).rejects.toThrow('cut off');
    vault.faults.decide = () => undefined;
    const { id, key = '' } = await create({}, { idempotencyKey: 'k' });
    const events = await vault.events();
    expect(events.map((event) => [event.type, fieldsOf(event).application_id])).toEqual([
      ['ApplicationCreated', id],
      ['ApplicationKeyRegenerated', id],
    ]);
    expect(fieldsOf(events[1]).key_hash).toBe(hashApiKey(key));
  });

  it('changed by many requests at once has the content of the last one', async () => {
    const { id } = await create();
    await Promise.all(['a', 'b', 'c'].map((name) => on(id, 'updateApplication', { name })));
    expect((await vault.events()).filter(({ type }) => type === 'ApplicationUpdated')).toHaveLength(3);
  });
});
