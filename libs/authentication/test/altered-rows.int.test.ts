import { describe, expect, it } from 'vitest';
import { generateApiKey, hashApiKey } from '@token-vault/crypto';
import { applicationId, key, signedApplication, tenantId, useAuthenticator } from './authenticator-setup.ts';

const setup = useAuthenticator();

describe('a row that differs from the row that the vault wrote', () => {
  const altered = { code: 'record_altered', status: 500 };

  it.each([
    ['another key', `update rm_applications.application set key_hash = $1, id = gen_random_uuid()`],
    ['a copy of it for another key', `update rm_applications.application set key_hash = $1`],
    [
      'one that was never signed',
      `insert into rm_applications.application select gen_random_uuid(), tenant_id, type, $1, permissions, rules from rm_applications.application`,
    ],
  ])('opens nothing: %s', async (_what, statement) => {
    const thief = generateApiKey('pvt');
    await setup.pool.query(statement, [hashApiKey(thief)]);
    await expect(setup.authenticator.authenticate(thief)).rejects.toMatchObject(altered);
  });

  it.each([
    ['permissions', `update rm_applications.application set permissions = '["token:read","token:use"]'`],
    ['rules', `update rm_applications.application set rules = '[]'`],
    ['name', `update rm_applications.application set name = 'Payments'`],
    ['type', `update rm_applications.application set type = 'public'`],
    ['expiry', `update rm_applications.application set expires_at_text = '2031-01-01T00:00:00Z'`],
    ['plan', `update rm_tenants.tenant set plan = 'enterprise'`],
    ['settings', `update rm_tenants.tenant set settings = '{"a":"b"}'`],
    ['the mark of an upgrade', `update rm_tenants.tenant set accepts_unsigned = true`],
  ])('is refused with another %s', async (_what, statement) => {
    await setup.pool.query(statement);
    await expect(setup.authenticator.authenticate(key)).rejects.toMatchObject(altered);
  });

  it('is refused when it was moved to another tenant, whose rows are unchanged', async () => {
    const { tenant } = await setup.addApplication();
    await setup.pool.query('update rm_applications.application set tenant_id = $1 where id = $2', [
      tenant,
      applicationId,
    ]);
    await expect(setup.authenticator.authenticate(key)).rejects.toMatchObject(altered);
  });

  it('is refused while its tenant is not signed, as at an upgrade, and is not reported as altered', async () => {
    setup.hashes.acceptsUnsigned = true;
    await setup.pool.query('update rm_tenants.tenant set signature = null');
    await expect(setup.authenticator.authenticate(key)).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('is refused when the signature of a tenant was removed after its upgrade', async () => {
    await setup.pool.query('update rm_tenants.tenant set signature = null');
    await expect(setup.authenticator.authenticate(key)).rejects.toMatchObject(altered);
  });
});

describe('an old row that was written back', () => {
  const application = `application-${tenantId}.${applicationId}`;

  it.each(['ApplicationDeleted', 'ApplicationExpired'])('is not accepted after %s', async (type) => {
    setup.streams.set(application, ['ApplicationCreated', type]);
    expect(await setup.kindOf()).toBe('unknown');
  });

  it('is not accepted when its rights were changed since', async () => {
    setup.streams.set(application, ['ApplicationCreated', 'ApplicationUpdated']);
    await expect(setup.authenticator.authenticate(key)).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('is refused when the change since is called another event', async () => {
    setup.streams.set(application, ['ApplicationCreated', 'TokensRead']);
    await expect(setup.authenticator.authenticate(key)).rejects.toMatchObject({ code: 'record_altered' });
  });

  it('is not accepted after its tenant was deleted', async () => {
    setup.streams.set(`tenant-${tenantId}`, ['TenantCreated', 'TenantDeleted']);
    expect(await setup.kindOf()).toBe('unknown');
  });

  it('is read again when the read model is only a moment behind the log', async () => {
    setup.streams.set(application, ['ApplicationCreated', 'ApplicationUpdated']);
    const found = setup.kindOf();
    await setup.pool.query('update rm_applications.application set signature = $1', [
      signedApplication(undefined, 1),
    ]);
    expect(await found).toBe('authenticated');
  });
});
