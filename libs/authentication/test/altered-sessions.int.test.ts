import { generateApiKey, hashApiKey } from '@token-vault/crypto';
import { beforeEach, describe, expect, it } from 'vitest';
import { tenantId, useAuthenticator } from './authenticator-setup.ts';
import { consoleSecret, insertConsoleSession, insertSession, sessionKey } from './session-rows.ts';

const setup = useAuthenticator();
const altered = { code: 'record_altered', status: 500 };
const all = '["token:create","token:read"]';

describe('the row of a session that differs from the row that the vault wrote', () => {
  const change = (set: string, values: readonly string[] = []) =>
    setup.pool.query(`update rm_applications.session set ${set}`, [...values]);
  const refused = (key = sessionKey) =>
    expect(setup.authenticator.authenticate(key)).rejects.toMatchObject(altered);

  beforeEach(async () => {
    await insertSession(setup.pool);
    await change('is_authorized = true');
    expect(await setup.kindOf(sessionKey)).toBe('authenticated');
    setup.authenticator.forget();
  });

  it.each([
    ['id', 'id = gen_random_uuid()'],
    ['permissions', `permissions = '${all}'`],
    ['rules', `rules = '[{"priority":1,"container":"/","transform":"reveal","permissions":["token:read"]}]'`],
    ['expiry', `expires_at_text = '2031-01-01T00:00:00Z'`],
  ])('is refused with another %s', async (_what, set) => {
    await change(set);
    await refused();
  });

  it('is refused with another key', async () => {
    const thief = generateApiKey('ses');
    await change('key_hash = $1', [hashApiKey(thief)]);
    await refused(thief);
  });

  it.each([
    ['that opened it', 'application_id = $1'],
    ['that opened it, with its key', 'application_id = $1, opener_key_hash = $2'],
    ['that authorised it', 'authorized_by = $1'],
    ['that authorised it, with its key', 'authorized_by = $1, authorizer_key_hash = $2'],
  ])('is refused with another application %s', async (_what, set) => {
    const { id, key } = await setup.addApplication(tenantId);
    await change(set, set.includes('$2') ? [id, hashApiKey(key)] : [id]);
    await refused();
  });

  it('is refused when it was moved to another tenant, also with the application and the key of that', async () => {
    const { tenant, id, key } = await setup.addApplication();
    await change('tenant_id = $1', [tenant]);
    await refused();
    await change('application_id = $1, authorized_by = $1, opener_key_hash = $2, authorizer_key_hash = $2', [
      id,
      hashApiKey(key),
    ]);
    await refused();
  });

  it('is refused when only the row says that it was authorised', async () => {
    await change('signature = null, permissions = $1', [all]);
    await refused();
  });
});

describe('the row of a console session that differs from the row that the vault wrote', () => {
  const change = (set: string, values: readonly string[] = []) =>
    setup.pool.query(`update rm_applications.console_session set ${set}`, [...values]);
  const authenticate = (secret = consoleSecret) =>
    setup.authenticator.authenticateConsole(secret, 'token:read');
  const refused = (secret?: string) => expect(authenticate(secret)).rejects.toMatchObject(altered);
  const membersOf = ({ id, key }: { readonly id: string; readonly key: string }) =>
    JSON.stringify([{ application_id: id, application_type: 'private', key_hash: hashApiKey(key) }]);

  beforeEach(async () => {
    await insertConsoleSession(setup.pool);
    expect((await authenticate()).kind).toBe('authenticated');
    setup.authenticator.forget();
  });

  it.each([
    ['id', 'id = gen_random_uuid()'],
    ['end', `ends_at_text = '2031-01-01T00:00:00Z'`],
    ['expiry', `expires_at_text = '2031-01-01T00:00:00Z'`],
    ['signature', 'signature = null'],
  ])('is refused with another %s', async (_what, set) => {
    await change(set);
    await refused();
  });

  it('is refused with another secret', async () => {
    const thief = generateApiKey('ses');
    await change('secret_hash = $1', [hashApiKey(thief)]);
    await refused(thief);
  });

  it('is refused with another application', async () => {
    await change('members = $1', [membersOf(await setup.addApplication(tenantId))]);
    await refused();
  });

  it('is refused when it was moved to another tenant, also with the application of that', async () => {
    const victim = await setup.addApplication();
    await change('tenant_id = $1', [victim.tenant]);
    await refused();
    await change('members = $1', [membersOf(victim)]);
    await refused();
  });
});
