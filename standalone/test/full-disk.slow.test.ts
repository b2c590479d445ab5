import type { Application, Reactor, Token } from '@token-vault/contracts';
import {
  cardToken,
  createDataDirectory,
  plainApplication,
  removeDataDirectory,
  revealingApplication,
  runCommand,
  startStandaloneProcess,
  waitUntil,
  type Client,
  type StandaloneProcess,
} from '@token-vault/test-support';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { rm, statfs } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const mebibyte = 1024 * 1024;
/** 10 % of it are more than the reserve of 64 MiB. */
const size = 720;

/** Mounts a file system of its own on a directory. Gives the reason when this account may not. */
function mountSmall(directory: string): string | undefined {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'only root on Linux may mount';
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}m,mode=0711`, 'tmpfs', directory], {
      stdio: 'pipe',
    });
    return undefined;
  } catch (error) {
    return `a file system cannot be mounted here: ${String(error)}`;
  }
}

const dataDir = await createDataDirectory();
const missing = mountSmall(dataDir);
if (missing !== undefined) process.stderr.write(`skipped: a full disk: ${missing}\n`);

const filling = path.join(dataDir, 'filling');

/** Fills the disk until `free` MiB are left. */
async function fill(free: number): Promise<void> {
  await rm(filling, { force: true });
  const { bavail, bsize } = await statfs(dataDir);
  const bytes = bavail * bsize - free * mebibyte;
  execFileSync('fallocate', ['-l', String(bytes), filling]);
}

describe.skipIf(missing !== undefined)('a vault whose disk fills', () => {
  let vault: StandaloneProcess;
  let manager: Client;
  let client: Client;
  let backend: Client;
  let tokenId: string;
  let reactorId: string;

  beforeAll(async () => {
    vault = await startStandaloneProcess({ dataDir });
    manager = vault.client();
    const make = async (body: object) => {
      const { key = '' } = (await manager.expect<Application>(201, 'POST', '/applications', { body })).body;
      return manager.withKey(key);
    };
    client = await make(revealingApplication());
    backend = await make(plainApplication({ permissions: ['token:use'] }));
    tokenId = (await client.expect<Token>(201, 'POST', '/tokens', { body: cardToken() })).body.id;
    const code = 'module.exports = async () => ({ raw: 1 });';
    const body = { name: 'one', configuration: {}, code };
    reactorId = (await manager.expect<Reactor>(201, 'POST', '/reactors', { body })).body.id;
  });
  afterAll(async () => {
    await rm(filling, { force: true });
    await vault.stop();
    // The mount point is busy until the watchdog of Postgres has ended.
    await waitUntil(
      () => {
        try {
          execFileSync('umount', [dataDir], { stdio: 'pipe' });
          return true;
        } catch {
          return false;
        }
      },
      { timeoutMs: 30_000, what: 'the end of the mount' },
    );
    await removeDataDirectory(dataDir);
  });

  const gauge = async (part: string): Promise<number> => {
    const text = await (await fetch(`${vault.url}/metrics`)).text();
    const found = new RegExp(`^vault_storage_bytes\\{[^}]*part="${part}"[^}]*\\} (\\S+)$`, 'm').exec(text);
    return Number(found?.[1] ?? NaN);
  };
  const logged = (message: string): number => vault.output().split(message).length - 1;

  it('warns once when 90 % are in use, and continues', async () => {
    await fill(68);
    const warning = 'the disk of the database is more than 90 % full';
    await waitUntil(() => logged(warning) > 0, { what: 'the warning' });
    await client.expect(201, 'POST', '/tokens', { body: cardToken() });
    expect(await gauge('size')).toBe(size * mebibyte);
    expect(await gauge('reserve')).toBe(64 * mebibyte);
    expect(logged(warning)).toBe(1);
  });

  it('refuses writes at every entrance before Postgres fails', async () => {
    await fill(40);
    const refusal = 'the disk of the database is full: writes are refused';
    await waitUntil(() => logged(refusal) > 0, { what: 'the refusal' });
    // The answer of /metrics is kept for a second.
    await waitUntil(async () => (await gauge('free')) < 64 * mebibyte, { what: 'the gauge' });
    const writes: [Client, string, string, object?][] = [
      [client, 'POST', '/tokens', cardToken()],
      [client, 'POST', '/tokenize', { number: 'x' }],
      [client, 'PATCH', `/tokens/${tokenId}`, { metadata: { a: 'b' } }],
      [client, 'DELETE', `/tokens/${tokenId}`],
      [manager, 'POST', '/applications', plainApplication()],
      [backend, 'POST', `/reactors/${reactorId}/react`, { args: {} }],
      // A read of a token is recorded in the log first.
      [client, 'GET', `/tokens/${tokenId}`],
      [client, 'POST', '/tokens/search', { query: 'type:card' }],
    ];
    for (const [by, method, at, body] of writes) {
      const answer = await by.request(method, at, body === undefined ? {} : { body });
      expect({ at: `${method} ${at}`, status: answer.status, body: answer.body }).toMatchObject({
        status: 503,
        body: { type: 'urn:token-vault:problem:insufficient-storage' },
      });
      expect(answer.headers.get('retry-after')).toBe('10');
    }
    const command = await runCommand(dataDir, ['tenants', 'create', 'Another']);
    expect(command).toMatchObject({ code: 1, stderr: 'vault: the disk of the store is full\n' });
    expect(logged(refusal)).toBe(1);
  });

  it('stops in time under a load of large tokens', async () => {
    await fill(80);
    const postmaster = await vault.postmasterPid();
    const isBack = async () => (await client.request('GET', `/tokens/${tokenId}`)).status === 200;
    await waitUntil(isBack, { what: 'the first answer' });
    let stored = 0;
    const write = async () => {
      for (;;) {
        const body = { type: 'token', data: randomBytes(200_000).toString('base64') };
        const { status } = await client.request('POST', '/tokens', { body });
        if (status !== 201) return status;
        stored += 1;
      }
    };
    const ends = await Promise.all(Array.from({ length: 16 }, write));
    expect(ends).toEqual(ends.map(() => 503));
    expect(stored).toBeGreaterThan(0);
    expect(await gauge('free')).toBeGreaterThan(16 * mebibyte);
    expect(await vault.postmasterPid()).toBe(postmaster);
  });

  it('continues by itself when there is space again, with no partial writes', async () => {
    await rm(filling);
    const isBack = async () => (await client.request('GET', `/tokens/${tokenId}`)).status === 200;
    await waitUntil(isBack, { what: 'the first answer' });
    await client.expect(201, 'POST', '/tokens', { body: cardToken() });
    await backend.expect(200, 'POST', `/reactors/${reactorId}/react`, { body: { args: {} } });
    const verified = await runCommand(dataDir, ['audit', 'verify']);
    expect(verified).toMatchObject({ code: 0 });
    expect(logged('the disk of the database has room again: writes are accepted')).toBeGreaterThan(0);
  });
});
