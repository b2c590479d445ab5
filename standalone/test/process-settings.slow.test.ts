import type { Reactor } from '@token-vault/contracts';
import {
  createDataDirectory,
  processSettingsOf,
  removeDataDirectory,
  startStandaloneProcess,
  type StandaloneProcess,
} from '@token-vault/test-support';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { open, writeFile, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

/** Empty when the process has ended. */
function read(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch {
    return '';
  }
}

const processes = (): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
const parentOf = (pid: number): number => Number(/^PPid:\s+(\d+)/m.exec(read(pid, 'status'))?.[1]);
const isOfSandbox = (pid: number): boolean => read(pid, 'cmdline').includes('--jitless');

function descendantsOf(pid: number): number[] {
  const children = processes().filter((each) => parentOf(each) === pid);
  return [...children, ...children.flatMap(descendantsOf)];
}

/** The targets of its descriptors. Empty when the process has ended. */
function descriptorsOf(pid: number): string[] {
  try {
    const directory = `/proc/${pid}/fd`;
    return readdirSync(directory).map((name) => readlinkSync(path.join(directory, name)));
  } catch {
    return [];
  }
}

describe.skipIf(process.platform !== 'linux')('a vault and its Postgres', () => {
  let dataDir: string;
  let secret: FileHandle;
  let vault: StandaloneProcess;
  beforeAll(async () => {
    dataDir = await createDataDirectory();
    await writeFile(path.join(dataDir, 'secret'), 'of the starter');
    secret = await open(path.join(dataDir, 'secret'));
    vault = await startStandaloneProcess({ dataDir, descriptor: secret.fd });
  });
  afterAll(async () => {
    await vault.stop();
    await secret.close();
    await removeDataDirectory(dataDir);
  });

  it('have their memory excluded from core dumps, and a higher priority than background threads', async () => {
    const own = processSettingsOf(vault.pid);
    const ofPostgres = processSettingsOf(await vault.postmasterPid());
    expect([own, ofPostgres].map(({ coredumpFilter }) => coredumpFilter)).toEqual(['00000000', '00000000']);
    expect(new Set(own.backgroundPriorities)).toEqual(new Set([Math.min(19, own.priority + 10)]));
    expect(ofPostgres.priority).toBe(own.priority);
  });

  it('have no descriptor of the starting process, nor has a process of the sandbox', async () => {
    const code = 'module.exports = async () => ({ raw: 7 });';
    const body = { name: 'r', configuration: {}, code };
    await vault.client().expect<Reactor>(201, 'POST', '/reactors', { body });
    const all = [vault.pid, ...descendantsOf(vault.pid)];
    expect(all).toContain(await vault.postmasterPid());
    expect(all.filter(isOfSandbox)).not.toEqual([]);
    const file = readlinkSync(`/proc/self/fd/${secret.fd}`);
    expect(all.filter((pid) => descriptorsOf(pid).includes(file))).toEqual([]);
  });
});
