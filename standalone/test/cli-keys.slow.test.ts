import {
  cardToken,
  createDataDirectory,
  createTestPool,
  printed,
  removeDataDirectory,
  resultOf,
  revealingApplication,
  runCommand,
  spawnVault,
  startStandaloneProcess,
  type Client,
  type StandaloneProcess,
} from '@token-vault/test-support';
import { randomBytes } from 'node:crypto';
import { copyFile, readdir, readFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

// Each command is a process of its own. There are many of them, beside a load, on a busy machine.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

let dataDir: string;
let vault: StandaloneProcess;
let client: Client;
let applicationKey: string;
let tokenId: string;
let tenantId: string;

const keyFile = () => path.join(dataDir, 'root.key');
const newKey = () => randomBytes(32).toString('base64');

beforeAll(async () => {
  dataDir = await createDataDirectory();
  vault = await startStandaloneProcess({ dataDir });
  tenantId = vault.credentials.tenant_id;
  const made = await vault
    .client()
    .expect<{ key: string }>(201, 'POST', '/applications', { body: revealingApplication() });
  applicationKey = made.body.key;
  client = vault.client(applicationKey);
  tokenId = (await client.expect<{ id: string }>(201, 'POST', '/tokens', { body: cardToken() })).body.id;
});
afterAll(() => removeDataDirectory(dataDir));

/** Creates and reveals tokens without a pause until stopped. Any unexpected answer fails the test. */
function startLoad(): { stop(): Promise<number> } {
  let isStopped = false;
  const workers = Array.from({ length: 2 }, async () => {
    let count = 0;
    for (; !isStopped; count++) {
      const body = cardToken();
      const made = await client.expect<{ id: string }>(201, 'POST', '/tokens', { body });
      const read = await client.expect<{ data: { number: string } }>(200, 'GET', `/tokens/${made.body.id}`);
      expect(read.body.data.number).toBe(body.data.number);
    }
    return count;
  });
  const done = Promise.all(workers);
  // `stop` reports a failure.
  done.catch(() => undefined);
  return {
    async stop() {
      isStopped = true;
      return (await done).reduce((sum, count) => sum + count, 0);
    },
  };
}

async function restart(env: Record<string, string> = {}): Promise<void> {
  await vault.stop();
  vault = await startStandaloneProcess({ dataDir, env });
  client = vault.client(applicationKey);
}

const revealed = () => client.expect(200, 'GET', `/tokens/${tokenId}`);

describe('the root key in a file', () => {
  it('is rotated while requests continue, and none of them fails', async () => {
    const load = startLoad();
    const before = await readFile(keyFile(), 'utf8');
    const output = await resultOf(dataDir, 'keys', 'rotate-root');
    // The keys of this tenant are not cached, so the running vault must find the new root key.
    const tenant = await resultOf(dataDir, 'tenants', 'create', 'Made under the new key');
    await vault
      .client(printed(tenant, 'management key'))
      .expect(200, 'POST', '/tenants/self/webhook-secret/rotate');
    expect(await load.stop()).toBeGreaterThan(0);
    expect(output).toMatch(/^root key local:\w+ is in use; 1 tenant keys were wrapped by it/);
    expect(await readFile(keyFile(), 'utf8')).not.toBe(before);
    const files = (await readdir(dataDir)).filter((name) => name.startsWith('root.key'));
    expect(files).toEqual(['root.key', expect.stringMatching(/^root\.key\.retired-\w{16}$/)]);
    await restart();
    await revealed();
  });

  it('is refused when it is the previous key', async () => {
    await vault.stop();
    const former = (await readdir(dataDir)).find((name) => name.startsWith('root.key.retired-')) ?? '';
    await rename(keyFile(), `${keyFile()}.away`);
    await copyFile(path.join(dataDir, former), keyFile());
    const refused = await spawnVault({ dataDir });
    expect(await refused.exited).toMatchObject({ code: 1 });
    expect(refused.errors()).toMatch(/^vault: wrong root key: .+\n$/);
    expect((await runCommand(dataDir, ['keys', 'rotate-root'])).stderr).toMatch(
      /^vault: wrong root key: .+\n$/,
    );
    await expect(readFile(`${keyFile()}.next`)).rejects.toThrow('ENOENT');
    await rm(keyFile());
    await rename(`${keyFile()}.away`, keyFile());
    vault = await startStandaloneProcess({ dataDir });
    client = vault.client(applicationKey);
    await revealed();
  });

  it('is rotated to the end after an interruption at any point', async () => {
    // Interrupted before the first key was wrapped, between two keys, and before the file was renamed.
    const pool = createTestPool(await vault.databaseUrl());
    await pool.query(`create function cut_off() returns trigger language plpgsql as
      $$ begin raise exception 'cut off'; end $$`);
    const cut = `create trigger cut_off before update on key_ring.tenant_key for each row when (old.tenant_id = '${tenantId}')`;
    await pool.query(`${cut} execute function cut_off()`);
    expect(await runCommand(dataDir, ['keys', 'rotate-root'])).toMatchObject({ code: 1, stdout: '' });
    const next = await readFile(`${keyFile()}.next`, 'utf8');
    await pool.query('drop trigger cut_off on key_ring.tenant_key');
    await pool.end();
    await restart();
    await revealed();
    const former = await readFile(keyFile(), 'utf8');
    await resultOf(dataDir, 'keys', 'rotate-root');
    expect(await readFile(keyFile(), 'utf8')).toBe(next);
    // Undoes the rename, as if the process had died before it.
    await rename(keyFile(), `${keyFile()}.next`);
    const retired = (await readdir(dataDir)).filter((name) => name.startsWith('root.key.retired-'));
    for (const name of retired)
      if ((await readFile(path.join(dataDir, name), 'utf8')) === former)
        await copyFile(path.join(dataDir, name), keyFile());
    await restart();
    await revealed();
    expect(await resultOf(dataDir, 'keys', 'rotate-root')).toContain('; 0 tenant keys were wrapped');
    expect(await readFile(keyFile(), 'utf8')).toBe(next);
    await restart();
    await revealed();
  });
});

describe('the key of a tenant', () => {
  it('is rotated while requests continue, and none of them fails', async () => {
    const load = startLoad();
    const output = await resultOf(dataDir, 'keys', 'rotate-tenant', tenantId);
    expect(await load.stop()).toBeGreaterThan(0);
    expect(Number(/; (\d+) data keys were wrapped/.exec(output)?.[1])).toBeGreaterThan(0);
    await revealed();
    const absent = await runCommand(dataDir, [
      'keys',
      'rotate-tenant',
      '00000000-0000-4000-8000-000000000000',
    ]);
    expect(absent.stderr).toMatch(/^vault: tenant .+ has no keys\n$/);
  });
});

describe('a root key from the environment', () => {
  it('replaces the key in the file, and is rotated with both keys present', async () => {
    const [first, second] = [newKey(), newKey()];
    await restart({ VAULT_ROOT_KEY_NEXT: first });
    expect(await runCommand(dataDir, ['keys', 'rotate-root'], { VAULT_ROOT_KEY_NEXT: first })).toMatchObject({
      code: 0,
    });
    await revealed();
    await restart({ VAULT_ROOT_KEY: first });
    const without = await runCommand(dataDir, ['keys', 'rotate-root'], { VAULT_ROOT_KEY: first });
    expect(without).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('VAULT_ROOT_KEY_NEXT') as string,
    });
    const both = { VAULT_ROOT_KEY: first, VAULT_ROOT_KEY_NEXT: second };
    await restart(both);
    const load = startLoad();
    expect(await runCommand(dataDir, ['keys', 'rotate-root'], both)).toMatchObject({ code: 0 });
    expect(await load.stop()).toBeGreaterThan(0);
    await restart({ VAULT_ROOT_KEY: second });
    await revealed();
    await vault.stop();
    const refused = await spawnVault({ dataDir, env: { VAULT_ROOT_KEY: first } });
    expect(await refused.exited).toMatchObject({ code: 1 });
  });
});
