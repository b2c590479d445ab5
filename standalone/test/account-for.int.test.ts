import { chmod, chown, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { accountFor } from '../src/account/account-for.ts';

const own = { name: 'token-vault', uid: 4_321, gid: 4_321 };
const other = { name: 'other', uid: 4_322, gid: 4_322 };
const others = [{ name: 'root', uid: 0, gid: 0 }, { name: 'postgres', uid: 4_323, gid: 4_323 }, other];

let parent: string;
let places: { root: string; rootKeyFile: string; postgres: string };
beforeEach(async () => {
  parent = await mkdtemp(path.join(tmpdir(), 'account-for-'));
  await chmod(parent, 0o755);
  const root = path.join(parent, 'data');
  places = { root, rootKeyFile: path.join(root, 'root.key'), postgres: path.join(root, 'postgres') };
  await mkdir(root, { mode: 0o700 });
  await writeFile(places.rootKeyFile, 'key', { mode: 0o600 });
});
afterEach(() => rm(parent, { recursive: true }));

describe.runIf(process.getuid?.() === 0)('a vault that root starts without VAULT_ACCOUNT', () => {
  it('takes the account token-vault when the host has it, also for a directory of root', async () => {
    expect(await accountFor(undefined, places, [...others, own])).toEqual(own);
    await rm(places.root, { recursive: true });
    expect(await accountFor(undefined, places, [...others, own])).toEqual(own);
  });

  it('takes no account that other programs use', async () => {
    expect(await accountFor(undefined, places, others)).toBeUndefined();
  });

  it('stays root where the account may not go to the data directory', async () => {
    await chmod(parent, 0o700);
    expect(await accountFor(undefined, places, [...others, own])).toBeUndefined();
  });

  it('takes the owner of the data first', async () => {
    for (const place of [places.root, places.rootKeyFile]) await chown(place, other.uid, other.gid);
    expect(await accountFor(undefined, places, [...others, own])).toEqual(other);
  });
});

describe('the setting VAULT_ACCOUNT', () => {
  it('has priority over all other accounts', async () => {
    expect(await accountFor('other', places, [...others, own])).toEqual(other);
    await expect(accountFor('nowhere', places, [...others, own])).rejects.toThrow('no such account');
  });
});
