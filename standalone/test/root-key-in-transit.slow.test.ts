import { startTransitDouble, type TransitDouble } from '@token-vault/test-doubles/transit';
import {
  cardToken,
  createDataDirectory,
  createTestPool,
  removeDataDirectory,
  resultOf,
  revealingApplication,
  runCommand,
  spawnVault,
  startStandaloneProcess,
  type Client,
  type StandaloneProcess,
} from '@token-vault/test-support';
import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

type Environment = Record<string, string>;

let double: TransitDouble;
let dataDir: string;
let vault: StandaloneProcess;
let applicationKey: string;
let client: Client;
let tokenId: string;
const outputs: string[] = [];

const transit = (overrides: Environment = {}): Environment => ({
  VAULT_ROOT_KEY_TRANSIT_URL: double.url,
  VAULT_ROOT_KEY_TRANSIT_KEY: 'vault',
  VAULT_ROOT_KEY_TRANSIT_TOKEN: double.token,
  VAULT_LOG_LEVEL: 'debug',
  ...overrides,
});

beforeAll(async () => {
  double = await startTransitDouble();
  double.keys.create('vault');
  dataDir = await createDataDirectory();
  vault = await startStandaloneProcess({ dataDir });
  const body = revealingApplication();
  const made = await vault.client().expect<{ key: string }>(201, 'POST', '/applications', { body });
  applicationKey = made.body.key;
  client = vault.client(applicationKey);
  tokenId = (await client.expect<{ id: string }>(201, 'POST', '/tokens', { body: cardToken() })).body.id;
});
afterAll(async () => {
  await removeDataDirectory(dataDir);
  await double.down();
});

async function restart(env: Environment): Promise<void> {
  await vault.stop();
  outputs.push(vault.output());
  vault = await startStandaloneProcess({ dataDir, env });
  client = vault.client(applicationKey);
}

const revealed = () => client.expect(200, 'GET', `/tokens/${tokenId}`);

/** The one line on stderr of a start that must fail. */
async function complaintOf(env: Environment): Promise<string> {
  const refused = await spawnVault({ dataDir, env });
  expect(await refused.exited).toMatchObject({ code: 1 });
  outputs.push(refused.output());
  expect(refused.errors()).toMatch(/^vault: .+\n$/);
  return refused.errors();
}

async function rotate(env: Environment): Promise<string> {
  const { code, stdout, stderr } = await runCommand(dataDir, ['keys', 'rotate-root'], env);
  outputs.push(stdout + stderr);
  expect({ code, stderr }).toMatchObject({ code: 0 });
  return stdout;
}

/** Creates and reveals tokens until stopped. Any unexpected answer fails the test. */
function startLoad(): { stop(): Promise<number> } {
  let isStopped = false;
  const work = async () => {
    let count = 0;
    for (; !isStopped; count++) {
      const made = await client.expect<{ id: string }>(201, 'POST', '/tokens', { body: cardToken() });
      await client.expect(200, 'GET', `/tokens/${made.body.id}`);
    }
    return count;
  };
  const done = work();
  // `stop` reports a failure.
  done.catch(() => undefined);
  return {
    stop() {
      isStopped = true;
      return done;
    },
  };
}

describe('a root key in transit', () => {
  it('is refused while the vault’s keys are wrapped by the key in the file, unless it is the next key', async () => {
    await vault.stop();
    expect(await complaintOf(transit())).toMatch(/wrong root key: .* wrapped by local:\w+/);
    vault = await startStandaloneProcess({ dataDir, env: transit({ VAULT_ROOT_KEY_NEXT: 'transit' }) });
    client = vault.client(applicationKey);
    await revealed();
  });

  it('replaces the key in the file while requests continue, and none of them fails', async () => {
    const load = startLoad();
    expect(await rotate(transit({ VAULT_ROOT_KEY_NEXT: 'transit' }))).toMatch(
      /^root key transit:vault:v1:\d+ is in use; 1 tenant keys were wrapped/,
    );
    expect(await load.stop()).toBeGreaterThan(0);
    await vault.stop();
    expect(await complaintOf({})).toMatch(/wrong root key: .* wrapped by transit:vault:v1/);
    await rm(path.join(dataDir, 'root.key'));
    vault = await startStandaloneProcess({ dataDir, env: transit() });
    client = vault.client(applicationKey);
    await revealed();
    expect((await readdir(dataDir)).filter((name) => name.startsWith('root.key'))).toEqual([]);
  });

  it('is rotated to a newer version, which the running vault finds by itself', async () => {
    const same = await runCommand(dataDir, ['keys', 'rotate-root'], transit());
    expect(same).toMatchObject({ code: 1, stdout: '' });
    expect(same.stderr).toMatch(/is the newest version in transit: rotate the key there first/);
    double.keys.rotate('vault');
    const load = startLoad();
    expect(await rotate(transit())).toContain('root key transit:vault:v2:');
    const made = await runCommand(dataDir, ['tenants', 'create', 'Made under version 2'], transit());
    const managementKey = /^management key: (\S+)$/m.exec(made.stdout)?.[1] ?? '';
    await vault.client(managementKey).expect(200, 'POST', '/tenants/self/webhook-secret/rotate');
    expect(await load.stop()).toBeGreaterThan(0);
    // After the restart of the next test version 1 is not needed.
    double.keys.setMinDecryptionVersion('vault', 2);
  });

  it('is rotated to the end after an interruption', async () => {
    double.keys.rotate('vault');
    const pool = createTestPool(await vault.databaseUrl());
    await pool.query(`create function cut_off() returns trigger language plpgsql as
      $$ begin raise exception 'cut off'; end $$`);
    await pool.query(`create trigger cut_off before update on key_ring.tenant_key for each row
      when (old.tenant_id = '${vault.credentials.tenant_id}') execute function cut_off()`);
    expect(await runCommand(dataDir, ['keys', 'rotate-root'], transit())).toMatchObject({ code: 1 });
    await pool.query('drop function cut_off() cascade');
    await pool.end();
    await restart(transit());
    await revealed();
    expect(await rotate(transit())).toContain('root key transit:vault:v3:');
    await revealed();
  });

  it('is rotated to a key of another name', async () => {
    double.keys.create('other');
    const both = transit({ VAULT_ROOT_KEY_NEXT: 'transit:other' });
    await restart(both);
    expect(await rotate(both)).toContain('root key transit:other:v1:');
    await revealed();
    await vault.stop();
    outputs.push(vault.output());
    expect(await complaintOf(transit())).toMatch(/wrong root key: .* wrapped by transit:other:v1/);
  });

  it.each<[string, (faults: TransitDouble['faults']) => unknown, RegExp]>([
    [
      'is sealed',
      (faults) => (faults.sealed = true),
      /root key: transit .* is sealed \(503\); try again later/,
    ],
    ['refuses the token', (faults) => (faults.deny = /./), /root key: transit .* refuses the token \(403\)/],
  ])('is reported in one line at the start when transit %s', async (_name, fail, complaint) => {
    fail(double.faults);
    expect(await complaintOf(transit({ VAULT_ROOT_KEY_TRANSIT_KEY: 'other' }))).toMatch(complaint);
    Object.assign(double.faults, { sealed: false, deny: undefined });
  });

  it('is not needed by tenants in use while transit is unavailable; requests of other tenants get 503', async () => {
    const env = transit({ VAULT_ROOT_KEY_TRANSIT_KEY: 'other' });
    vault = await startStandaloneProcess({ dataDir, env });
    client = vault.client(applicationKey);
    const made = await runCommand(dataDir, ['tenants', 'create', 'Not yet in use'], env);
    const managementKey = /^management key: (\S+)$/m.exec(made.stdout)?.[1] ?? '';
    await revealed();
    double.faults.deny = /./;
    await revealed();
    const rotateSecret = () =>
      vault.client(managementKey).request('POST', '/tenants/self/webhook-secret/rotate');
    expect(await rotateSecret()).toMatchObject({ status: 503 });
    double.faults.deny = undefined;
    expect(await rotateSecret()).toMatchObject({ status: 200 });
  });

  it('is replaced by a key in the file', async () => {
    const env = transit({ VAULT_ROOT_KEY_TRANSIT_KEY: 'other' });
    const newRoot = await runCommand(dataDir, ['keys', 'new-root'], env);
    expect(newRoot).toMatchObject({ code: 0 });
    await restart(env);
    expect(await rotate(env)).toMatch(/^root key local:\w+ is in use/);
    await double.down();
    await restart({});
    await revealed();
    expect(await resultOf(dataDir, 'audit', 'verify')).toContain('the log is as it was signed');
  });

  it('was used with a token that is in no output', () => {
    expect(outputs.join('').length).toBeGreaterThan(1000);
    expect(outputs.join('')).not.toContain(double.token);
  });
});
