import { linkSync, renameSync } from 'node:fs';
import { chown, link, lstat, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { handOver } from '../src/account/hand-over.ts';
import { placesIn } from '../src/data-directory.ts';
import { takeAccount } from '../src/account/service-account.ts';

const account = { name: 'vault', uid: 61_001, gid: 61_002 };
const postgresAccount = 101;
const former = new Set([0, postgresAccount]);

let outside: string;
let root: string;
const inside = (name: string): string => path.join(root, name);
const directory = () => placesIn(root);
const ownerOf = async (file: string): Promise<number> => (await lstat(file)).uid;

beforeEach(async () => {
  outside = await mkdtemp(path.join(tmpdir(), 'token-vault-test-hand-over-'));
  root = path.join(outside, 'data');
  await mkdir(inside('postgres/cluster/data'), { recursive: true });
  await writeFile(inside('root.key'), 'key', { mode: 0o600 });
  await writeFile(inside('postgres/cluster/data/base'), 'rows');
  await chown(inside('postgres/cluster/data/base'), postgresAccount, postgresAccount);
});
afterEach(() => rm(outside, { recursive: true }));

describe.runIf(process.getuid?.() === 0 && process.platform === 'linux')('a data directory of root', () => {
  it('is handed to the account with all its content, any number of times', async () => {
    await handOver(directory(), account, former);
    await handOver(directory(), account, former);
    for (const file of ['', 'root.key', 'postgres', 'postgres/cluster/data', 'postgres/cluster/data/base'])
      expect(await lstat(inside(file))).toMatchObject({ uid: account.uid, gid: account.gid });
    expect((await lstat(inside('root.key'))).mode & 0o777).toBe(0o600);
  });

  it('is handed over without the targets of symbolic links, and without the programs of the package', async () => {
    const elsewhere = path.join(outside, 'elsewhere');
    await mkdir(elsewhere);
    await writeFile(path.join(elsewhere, 'file'), '');
    await symlink(elsewhere, inside('postgres/link'));
    await mkdir(inside('postgres/programs-1-2'));
    await link(path.join(elsewhere, 'file'), inside('postgres/programs-1-2/postgres'));
    await handOver(directory(), account, former);
    expect(await ownerOf(inside('postgres/link'))).toBe(account.uid);
    expect([await ownerOf(elsewhere), await ownerOf(path.join(elsewhere, 'file'))]).toEqual([0, 0]);
  });

  it.each([
    ['belongs to another user', async (file: string) => chown(file, 4_711, 4_711), 'belongs to user 4711'],
    [
      'has a second name',
      async (file: string) => link(file, path.join(outside, 'second')),
      'has another name elsewhere',
    ],
  ])('is not changed when one file in it %s', async (_what, spoil, complaint) => {
    const file = inside('postgres/cluster/data/other');
    await writeFile(file, '');
    await spoil(file);
    await expect(handOver(directory(), account, former)).rejects.toThrow(`${file} ${complaint}`);
    expect(await ownerOf(inside('root.key'))).toBe(0);
    expect(await readFile(inside('root.key'), 'utf8')).toBe('key');
  });

  it('does not hand over a file of root that replaces one of its files meanwhile', async () => {
    const [secret, file] = [path.join(outside, 'shadow'), inside('postgres/cluster/data/other')];
    await writeFile(secret, '');
    await writeFile(file, '');
    await chown(file, 102, 102);
    let looks = 0;
    /**
     * Exchanges the entry between its check and its change of owner. `has` is called in between; at its first call no
     * owner has changed yet.
     */
    class Swapping extends Set<number> {
      override has(uid: number): boolean {
        if (uid === 102 && ++looks === 2) {
          renameSync(file, `${file}.old`);
          linkSync(secret, file);
        }
        return uid === 102 || former.has(uid);
      }
    }
    await handOver(directory(), account, new Swapping());
    expect(looks).toBeGreaterThanOrEqual(2);
    expect(await ownerOf(secret)).toBe(0);
    expect(await ownerOf(`${file}.old`)).toBe(account.uid);
  });

  it('has no file written or made through a link in it', async () => {
    const elsewhere = path.join(outside, 'elsewhere');
    await writeFile(elsewhere, 'of root');
    await symlink(elsewhere, inside('postgres/supervisor.pid'));
    await handOver(directory(), account, former);
    expect(await readFile(elsewhere, 'utf8')).toBe('of root');
    await chown(inside('root.key'), 0, 0);
    await rm(inside('postgres/supervisor.lock'));
    await symlink(path.join(outside, 'nologin'), inside('postgres/supervisor.lock'));
    await expect(handOver(directory(), account, former)).rejects.toThrow('is a symbolic link');
    await expect(lstat(path.join(outside, 'nologin'))).rejects.toThrow('ENOENT');
  });

  it.each([
    ['in the group of root', 61_001, 0, 'the group of user 61001 is that of root'],
    ['nobody', 65_534, 65_534, 'must not be root or nobody'],
    ['that of the processes of the sandbox', 65_533, 65_533, 'must not be root or nobody'],
  ])('does not make root an account that is %s, key or no key', async (_what, uid, gid, complaint) => {
    for (const name of ['', 'postgres', 'root.key']) await chown(inside(name), uid, gid);
    await expect(takeAccount({ account: undefined }, directory())).rejects.toThrow(complaint);
    await rm(inside('root.key'));
    await expect(takeAccount({ account: undefined }, directory())).rejects.toThrow(complaint);
    expect(process.getuid?.()).toBe(0);
  });

  it.each([
    ['root', 'must not be root or nobody'],
    ['65534', 'must not be root or nobody'],
    ['no-such-account', 'this host has no such account'],
  ])('is not handed to %s', async (name, complaint) => {
    await expect(takeAccount({ account: name }, directory())).rejects.toThrow(complaint);
    expect(await ownerOf(root)).toBe(0);
    expect(process.getuid?.()).toBe(0);
  });
});
