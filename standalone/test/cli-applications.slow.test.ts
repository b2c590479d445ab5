import {
  createDataDirectory,
  createTestPool,
  plainApplication,
  refusalOf,
  removeDataDirectory,
  resultOf,
  startStandaloneProcess,
  waitUntil,
  type StandaloneProcess,
} from '@token-vault/test-support';
import { systemActors, type Application, type ApplicationKey, type LogEntry } from '@token-vault/contracts';
import type { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

let dataDir: string;
let vault: StandaloneProcess;
let pool: Pool;
let tenant: string;

beforeAll(async () => {
  dataDir = await createDataDirectory();
  vault = await startStandaloneProcess({ dataDir });
  tenant = vault.credentials.tenant_id;
  pool = createTestPool(await vault.databaseUrl());
});
afterAll(async () => {
  await pool.end();
  await removeDataDirectory(dataDir);
});

const ofTenant = () => ['--tenant', tenant];
const refused = (...args: string[]) => refusalOf(dataDir, ...args, ...ofTenant());
const told = (...args: string[]) => resultOf(dataDir, ...args, ...ofTenant());

/** The lines of a command with `--json`. */
async function listed<Item extends object>(...args: string[]): Promise<Item[]> {
  const lines = (await told(...args, '--json')).trim().split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Item);
}

async function makeApplication(body: object = {}): Promise<{ id: string; key: string }> {
  const whole = plainApplication(body);
  const { id, key = '' } = (
    await vault.client().expect<Application>(201, 'POST', '/applications', { body: whole })
  ).body;
  return { id, key };
}
const addKey = async (path: string): Promise<ApplicationKey & { key: string }> =>
  (await vault.client().expect<ApplicationKey & { key: string }>(201, 'POST', `${path}/keys`, { body: {} }))
    .body;
const statusOf = async (key: string) => (await vault.client(key).request('GET', '/applications/key')).status;

/** The entries of the log with the operator as the actor, newest first. */
async function operatorsEntries(filters: Readonly<Record<string, string>>): Promise<readonly LogEntry[]> {
  const query = new URLSearchParams({ actor_id: systemActors.operator, size: '100', ...filters }).toString();
  return (await vault.client().expect<{ data: LogEntry[] }>(200, 'GET', `/logs?${query}`)).body.data;
}

/** Whether all processes were told that callers of the application are to be looked up again. */
const isConfirmed = async (applicationId: string): Promise<boolean> => {
  const { rows } = await pool.query('select from projections.revocation where stream like $1', [
    `%${applicationId}`,
  ]);
  return rows.length > 0;
};

describe('the applications of a tenant', () => {
  it('are listed without their keys, and the log names the operator as the reader', async () => {
    const { id, key } = await makeApplication({ name: 'evil\u001B[2J', expires_at: '2099-01-01T00:00:00Z' });
    const text = await told('applications', 'list');
    expect(text).toMatch(new RegExp(`^${id}  private  +2099-01-01T00:00:00Z  evil\uFFFD\\[2J$`, 'm'));
    const all = await listed<Application>('applications', 'list');
    expect(all.find((each) => each.id === id)).toMatchObject({ type: 'private', tenant_id: tenant });
    expect(text + JSON.stringify(all)).not.toContain(key);
    const [entry] = await operatorsEntries({ operation: 'list', entity_id: id });
    expect(entry).toMatchObject({ actor_type: 'system', entity_type: 'application' });
  });

  it('are those of an existing tenant', async () => {
    const nobody = ['--tenant', '00000000-0000-4000-8000-000000000000'];
    for (const command of [
      ['applications', 'list'],
      ['proxies', 'list'],
      ['runs', 'list'],
    ])
      expect(await refusalOf(dataDir, ...command, ...nobody)).toBe('vault: The tenant was not found.');
  });
});

describe('the keys of an application', () => {
  it('are listed by their ids', async () => {
    const { id, key } = await makeApplication();
    const second = await addKey(`/applications/${id}`);
    const keys = await listed<ApplicationKey>('applications', 'keys', id);
    expect(keys.map((each) => Object.keys(each))).toEqual([
      ['id', 'created_at'],
      ['id', 'created_at'],
    ]);
    expect(keys.map((each) => each.id)).toEqual([id, second.id]);
    const text = await told('applications', 'keys', id);
    expect(text).toMatch(new RegExp(`^${second.id}  \\S+Z$`, 'm'));
    for (const secret of [key, second.key]) expect(text).not.toContain(secret);
  });

  it('are revoked one by one; the command ends when no process accepts the key any more', async () => {
    const { id, key } = await makeApplication();
    const second = await addKey(`/applications/${id}`);
    expect([await statusOf(key), await statusOf(second.key)]).toEqual([200, 200]);
    expect(await isConfirmed(id)).toBe(false);
    expect(await told('applications', 'revoke-key', id, second.id)).toBe(
      `key ${second.id} of application ${id}: revoked\n`,
    );
    expect(await isConfirmed(id)).toBe(true);
    expect([await statusOf(key), await statusOf(second.key)]).toEqual([200, 401]);
    const [entry] = await operatorsEntries({ entity_id: id, operation: 'update' });
    expect(entry?.message).toBe(`Application key deleted: ${second.id}`);
    expect(await refused('applications', 'revoke-key', id, second.id)).toBe('vault: The key was not found.');
    expect(await refused('applications', 'revoke-key', second.id, id)).toBe(
      'vault: The application was not found.',
    );
  });

  it('are revoked, but not confirmed, while the read model of callers is paused; a repeat confirms it', async () => {
    const { id } = await makeApplication();
    const revoke = ['applications', 'revoke-key', id, id];
    await resultOf(dataDir, 'projections', 'pause', 'applications');
    try {
      expect(await refused(...revoke)).toMatch(/stored, but not yet certain .+ Repeat/);
    } finally {
      await resultOf(dataDir, 'projections', 'resume', 'applications');
    }
    expect(await told(...revoke)).toContain(': revoked');
    expect(await refused(...revoke)).toBe('vault: The key was not found.');
  });
});

describe('the configured proxies of a tenant', () => {
  it('are listed without configuration and code, and their keys are revoked', async () => {
    const { id: application } = await makeApplication({ permissions: ['token:use'] });
    const code = 'module.exports = async () => ({ raw: {} }); // private-code';
    const body = {
      name: 'provider',
      destination: 'https://api.example.com/v1',
      application: { id: application },
      configuration: { KEY: 'private-value' },
      request: { code },
    };
    const { id } = (await vault.client().expect<{ id: string }>(201, 'POST', '/proxies', { body })).body;
    const key = await addKey(`/proxies/${id}`);
    const text = await told('proxies', 'list');
    expect(text).toMatch(
      new RegExp(`^${id}  https://api.example.com/v1  keys +1 +${application}  provider$`, 'm'),
    );
    const [proxy] = await listed<{ id: string; keys: ApplicationKey[] }>('proxies', 'list');
    expect(proxy).toMatchObject({ id, has_code: true, require_auth: true, keys: [{ id: key.id }] });
    expect(text + JSON.stringify(proxy)).not.toMatch(new RegExp(`private-|${key.key}`));
    expect(await operatorsEntries({ operation: 'list', entity_id: id })).not.toEqual([]);

    const invoke = async () => {
      const path = `/proxies/${id}/invoke?svc-proxy-key=${key.key}`;
      return (await vault.client().request('GET', path, { key: null })).status;
    };
    // The tenant is on the enterprise plan, and has no list of destinations.
    expect(await invoke()).toBe(403);
    expect(await told('proxies', 'revoke-key', id, key.id)).toContain(': revoked');
    expect(await invoke()).toBe(401);
    expect(await isConfirmed(id)).toBe(true);
    expect(await refused('proxies', 'revoke-key', id, key.id)).toBe('vault: The key was not found.');
  });
});

describe('the runs of a tenant', () => {
  it('are listed with their states and classes of errors, without what their code was given', async () => {
    const code = `module.exports = async ({ args }) => { if (args.fails) throw new Error('private-text'); return { raw: args } }`;
    const reactor = { name: 'r', code, configuration: {} };
    const { id } = (await vault.client().expect<{ id: string }>(201, 'POST', '/reactors', { body: reactor }))
      .body;
    const user = vault.client((await makeApplication({ permissions: ['token:use'] })).key);
    const run = async (args: object) =>
      (await user.request('POST', `/reactors/${id}/react`, { body: { args } })).headers.get(
        'svc-invocation-id',
      );
    const [done, failed] = [await run({ text: 'private-text' }), await run({ fails: true })];
    const text = await told('runs', 'list', '--reactor', id);
    expect(text).toMatch(new RegExp(`^${done}  ${id}  sync  succeeded  \\S+Z  \\d+$`, 'm'));
    expect(text).toMatch(new RegExp(`^${failed}  ${id}  sync  failed +\\S+Z  \\d+ +500 failed$`, 'm'));
    const runs = await listed('runs', 'list', '--state', 'failed');
    expect(runs).toMatchObject([{ id: failed, error: { status: 500, class: 'failed' } }]);
    expect(text + JSON.stringify(runs)).not.toContain('private-text');
    expect(await refused('runs', 'list', '--state', 'nonsense')).toContain('Allowed choices are waiting');
    const [entry] = await operatorsEntries({ operation: 'list', entity_type: 'reactor' });
    expect(entry?.entity_id).toBe(id);
  });
});

describe('a stopped vault', () => {
  it('has a key revoked, which it does not accept when it runs again', async () => {
    const { id, key } = await makeApplication();
    const second = await addKey(`/applications/${id}`);
    expect(await statusOf(second.key)).toBe(200);
    await vault.stop();
    const keys = await listed<ApplicationKey>('applications', 'keys', id);
    expect(keys.map((each) => each.id)).toEqual([id, second.id]);
    expect(await told('applications', 'revoke-key', id, second.id)).toContain(': revoked');
    expect(await listed('proxies', 'list')).toHaveLength(1);
    expect(await listed('runs', 'list')).toHaveLength(2);
    vault = await startStandaloneProcess({ dataDir });
    await waitUntil(async () => (await statusOf(key)) === 200, { what: 'the start' });
    expect(await statusOf(second.key)).toBe(401);
  });
});
