import type { Application, Reactor } from '@token-vault/contracts';
import {
  createDataDirectory,
  plainApplication,
  removeDataDirectory,
  startStandaloneProcess,
  type StandaloneProcess,
} from '@token-vault/test-support';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { lstat, readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { currentIdentity, firstClosedDirectory } from '@token-vault/embedded-postgres';

const root = path.resolve(import.meta.dirname, '../..');
const { accounts } = await currentIdentity();
/** An account of the host other than root, that of Postgres, and nobody. */
const account = accounts.find(({ name, uid }) => uid > 0 && uid < 60_000 && name !== 'postgres');
const closed = account && (await firstClosedDirectory(import.meta.dirname, account));
const isPossible = account !== undefined && process.platform === 'linux' && closed === undefined;
const uid = account?.uid ?? 0;
const env = { VAULT_ACCOUNT: account?.name ?? '' };

/** A port that only root may open, unless the host has changed that. */
async function privilegedPort(): Promise<number> {
  for (let port = 1_023; ; port--) {
    const server = createServer().listen(port, '127.0.0.1');
    const isFree = await Promise.race([
      once(server, 'listening').then(() => true),
      once(server, 'error').then(() => false),
    ]);
    server.close();
    if (isFree) return port;
  }
}

async function ownersIn(directory: string): Promise<number[]> {
  const entries = await readdir(directory, { recursive: true });
  const owners = await Promise.all(
    entries.map((entry) => lstat(path.join(directory, entry)).catch(() => undefined)),
  );
  return [...new Set(owners.flatMap((info) => info?.uid ?? []))];
}

const usersOf = async (pid: number): Promise<string> =>
  /^Uid:\s+(.*)$/m.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1]?.replaceAll('\t', ' ') ?? '';

async function reactOnce(vault: StandaloneProcess): Promise<unknown> {
  const manager = vault.client();
  const body = { name: 'r', configuration: {}, code: 'module.exports = async () => ({ raw: 7 });' };
  const { id } = (await manager.expect<Reactor>(201, 'POST', '/reactors', { body })).body;
  const application = plainApplication({ permissions: ['token:use'] });
  const { key } = (await manager.expect<Application>(201, 'POST', '/applications', { body: application }))
    .body;
  const backend = manager.withKey(key ?? '');
  return (await backend.expect<{ raw: unknown }>(200, 'POST', `/reactors/${id}/react`, { body: {} })).body
    .raw;
}

describe.runIf(isPossible)('a vault that root starts with VAULT_ACCOUNT', () => {
  let dataDir: string;
  beforeAll(async () => {
    dataDir = await createDataDirectory();
    // An earlier start as root: all files belong to root.
    const first = await startStandaloneProcess({ dataDir });
    expect(first.output()).toContain('account: root; set VAULT_ACCOUNT');
    await first.stop();
    expect(await ownersIn(dataDir)).toContain(0);
  });
  afterAll(() => removeDataDirectory(dataDir));

  it('takes the account together with its data, and opens a port that only root may open', async () => {
    const port = await privilegedPort();
    const vault = await startStandaloneProcess({ dataDir, env: { ...env, VAULT_PORT: `${port}` } });
    expect(vault.output()).toContain(`account: ${account?.name}\n`);
    const all = Array.from({ length: 4 }, () => uid).join(' ');
    expect(await usersOf(vault.pid)).toBe(all);
    expect(await usersOf(await vault.postmasterPid())).toBe(all);
    expect(await ownersIn(dataDir)).toEqual([uid]);
    expect(await reactOnce(vault)).toBe(7);
    const metrics = await (await fetch(`${vault.url}/metrics`)).text();
    expect(metrics).toMatch(/^vault_sandbox_wall\{wall="unprivilegedService",.*\} 1$/m);
    // Postgres has this account, too: by SQL its role must not read root.key.
    expect(metrics).toMatch(/^vault_database_right\{right="superuser",.*\} 0$/m);
    await vault.stop();
  });

  it('has no files of root after commands of root, while the vault runs and while it does not', async () => {
    const list = () =>
      spawnSync(process.execPath, ['scripts/run.mjs', 'vault', 'tenants', 'list'], {
        cwd: root,
        env: { PATH: process.env.PATH, VAULT_DATA_DIR: dataDir },
        encoding: 'utf8',
      });
    expect(list().stdout).toContain('First tenant');
    expect(await ownersIn(dataDir)).toEqual([uid]);
    const vault = await startStandaloneProcess({ dataDir, env });
    expect(list().stdout).toContain('First tenant');
    expect(await ownersIn(dataDir)).toEqual([uid]);
    await vault.stop();
  });

  it('takes the account of its data again without the setting', async () => {
    const vault = await startStandaloneProcess({ dataDir });
    expect(await usersOf(vault.pid)).toMatch(new RegExp(`^${uid} `));
    expect(await ownersIn(dataDir)).toEqual([uid]);
    expect(await reactOnce(vault)).toBe(7);
    await vault.stop();
  });
});
