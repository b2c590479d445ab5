import {
  cardToken,
  createDataDirectory,
  createTestDatabase,
  printed,
  removeDataDirectory,
  resultOf,
  runCommand,
  startCommand,
  startStandaloneProcess,
  type StandaloneProcess,
} from '@token-vault/test-support';
import { access } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

let dataDir: string;
let vault: StandaloneProcess;

beforeAll(async () => {
  dataDir = await createDataDirectory();
  vault = await startStandaloneProcess({ dataDir });
});
afterAll(() => removeDataDirectory(dataDir));

async function complaintOf(args: readonly string[], env?: Record<string, string>): Promise<string> {
  const { code, stdout, stderr } = await runCommand(dataDir, args, env);
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toMatch(/^vault: .+\n$/);
  return stderr;
}

async function createTenant(...args: string[]) {
  const output = await resultOf(dataDir, 'tenants', 'create', ...args);
  return { id: printed(output, 'tenant'), key: printed(output, 'management key') };
}

describe('a tenant made while the vault runs', () => {
  it('can be used at once, and has the given plan', async () => {
    const { id, key } = await createTenant('Acme', '--plan', 'enterprise');
    const made = await vault.client(key).expect<{ id: string; plan: string }>(200, 'GET', '/tenants/self');
    expect(made.body).toMatchObject({ id, name: 'Acme', plan: 'enterprise' });
  });

  it('is listed, without its key', async () => {
    const { id, key } = await createTenant('Lister');
    const listed = await resultOf(dataDir, 'tenants', 'list');
    expect(listed).toMatch(new RegExp(`^${id}  standard    \\S+Z  Lister$`, 'm'));
    expect(listed).not.toContain(key);
    const lines = (await resultOf(dataDir, 'tenants', 'list', '--json')).trim().split('\n');
    expect(lines.map((line) => (JSON.parse(line) as { id: string }).id)).toContain(id);
  });

  it('has the new plan as soon as the command has ended', async () => {
    const { id, key } = await createTenant('Mover');
    expect(await resultOf(dataDir, 'tenants', 'set-plan', id, 'enterprise')).toBe(
      `tenant ${id}: enterprise\n`,
    );
    const made = await vault.client(key).expect<{ plan: string }>(200, 'GET', '/tenants/self');
    expect(made.body.plan).toBe('enterprise');
    expect(await resultOf(dataDir, 'tenants', 'set-plan', id, 'enterprise')).toContain('already');
  });

  it('cannot control the terminal by its name', async () => {
    await createTenant('evil\u001B[2J');
    expect(await resultOf(dataDir, 'tenants', 'list')).not.toContain('\u001B');
  });
});

describe('an application made while the vault runs', () => {
  it('can use its permissions at once, and no others', async () => {
    const tenant = await createTenant('Shop');
    const grants = ['--permission', 'token:create', '--permission', 'token:read'];
    const identity = ['--tenant', tenant.id, '--name', 'backend', '--type', 'private'];
    const output = await resultOf(dataDir, 'applications', 'create', ...identity, ...grants);
    const client = vault.client(printed(output, 'key'));
    const token = await client.expect<{ id: string }>(201, 'POST', '/tokens', { body: cardToken() });
    await client.expect(200, 'GET', `/tokens/${token.body.id}`);
    await client.expect(403, 'DELETE', `/tokens/${token.body.id}`);
    await vault.client().expect(404, 'GET', `/applications/${printed(output, 'application')}`);
  });

  it('is refused permissions that its type may not have', async () => {
    const { id } = await createTenant('Strict');
    const identity = ['applications', 'create', '--tenant', id, '--name', 'x', '--type', 'public'];
    expect(await complaintOf([...identity, '--permission', 'token:read'])).toContain('permissions');
    expect(await complaintOf(identity)).toContain('permissions or rules must be given');
    expect(await complaintOf([...identity, '--rules', '[{'])).toContain('--rules must be JSON');
    const rule = { description: 'x', priority: 1, container: '/', transform: 'none', permissions: [] };
    expect(await complaintOf([...identity, '--rules', JSON.stringify([rule])])).toMatch(
      /^vault: rules\.0\.transform must be one of /,
    );
    const misspelt = { ...rule, transform: 'mask', brake_glass: true };
    expect(await complaintOf([...identity, '--rules', JSON.stringify([misspelt])])).toContain(
      'rules.0.brake_glass',
    );
  });

  it('needs an existing tenant', async () => {
    const id = '00000000-0000-4000-8000-000000000000';
    const args = ['--tenant', id, '--name', 'x', '--type', 'private', '--permission', 'token:read'];
    expect(await complaintOf(['applications', 'create', ...args])).toBe('vault: The tenant was not found.\n');
    expect(await complaintOf(['tenants', 'set-plan', id, 'standard'])).toBe(
      'vault: The tenant was not found.\n',
    );
  });
});

describe('an invalid command', () => {
  it.each([
    [['nonsense'], /unknown command 'nonsense'/],
    [['tenants', 'create'], /missing required argument 'name'/],
    [['tenants', 'create', ' '], /1 to 200 characters/],
    [['tenants', 'create', 'x', '--plan', 'gold'], /Allowed choices are standard, enterprise/],
    [['tenants', 'set-plan', 'x', 'standard'], /not a UUID/],
  ])('%j is reported in one line', async (args, complaint) => {
    expect(await complaintOf(args)).toMatch(complaint);
  });

  it('for a directory without a vault makes none', async () => {
    const elsewhere = path.join(dataDir, 'elsewhere');
    expect(await complaintOf(['tenants', 'list'], { VAULT_DATA_DIR: elsewhere })).toContain(
      'there is no vault in',
    );
    await expect(access(elsewhere)).rejects.toThrow('ENOENT');
  });

  it('for a database that no vault has used makes no keys', async () => {
    const database = await createTestDatabase();
    const complaint = await complaintOf(['tenants', 'create', 'x'], { DATABASE_URL: database.url });
    expect(complaint).toContain('has never been started');
    await database.drop();
  });
});

/** By a process of its own, as for an operator: it starts Postgres, or finds a command that has started it. */
async function printedByProcess(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await startCommand(dataDir, args).ended;
  expect({ code, stderr }).toMatchObject({ code: 0 });
  return stdout;
}

describe('a stopped vault', () => {
  it('is operated too, by several commands at once', async () => {
    await vault.stop();
    const made = await Promise.all(['One', 'Two'].map((name) => printedByProcess('tenants', 'create', name)));
    vault = await startStandaloneProcess({ dataDir });
    for (const output of made) {
      const id = printed(output, 'tenant');
      const tenant = await vault
        .client(printed(output, 'management key'))
        .expect<{ id: string }>(200, 'GET', '/tenants/self');
      expect(tenant.body.id).toBe(id);
    }
  });

  it('may start while a command runs', async () => {
    await vault.stop();
    const [listed, started] = await Promise.all([printedByProcess('tenants', 'list'), startUntilFree()]);
    vault = started;
    expect(listed).toContain('First tenant');
    await vault.client().expect(200, 'GET', '/tenants/self');
  });
});

/** A vault that finds a running command reports it and ends. Its supervisor starts it again. */
async function startUntilFree(): Promise<StandaloneProcess> {
  for (;;) {
    try {
      return await startStandaloneProcess({ dataDir });
    } catch (error) {
      if (!String(error).includes('is in use by another vault')) throw error;
    }
  }
}
