import { chmod, mkdir, mkdtemp, readFile, realpath, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { defaultDataDirectory } from '../src/index.ts';
import { firstClosedDirectory } from '../src/account.ts';
import { prepareBinaries } from '../src/binaries.ts';

const account = { name: 'stranger', uid: 54_321, gid: 54_321 };
let directory: string;
let installed: string;

beforeEach(async () => {
  directory = await realpath(await mkdtemp(path.join(tmpdir(), 'binaries-')));
  await chmod(directory, 0o711);
  installed = path.join(directory, 'checkout', 'native');
  await mkdir(path.join(installed, 'bin'), { recursive: true });
  await mkdir(path.join(installed, 'lib'));
  await writeFile(path.join(installed, 'bin', 'postgres'), 'program', { mode: 0o755 });
  await writeFile(path.join(installed, 'lib', 'library.so'), 'library');
});

afterEach(() => rm(directory, { recursive: true, force: true }));

describe('the programs of Postgres', () => {
  it('are used from their place of installation when the account can run them there', async () => {
    const { postgres } = await prepareBinaries(directory, account, () => Promise.resolve(installed));
    expect(postgres).toBe(path.join(installed, 'bin', 'postgres'));
  });

  it('are copied once beside the data, with their libraries, when the account cannot read the checkout', async () => {
    await chmod(path.join(directory, 'checkout'), 0o700);
    expect(await firstClosedDirectory(installed, account)).toBe(path.join(directory, 'checkout'));
    const { postgres } = await prepareBinaries(directory, account, () => Promise.resolve(installed));
    expect(await firstClosedDirectory(path.dirname(postgres), account)).toBeUndefined();
    expect((await stat(postgres)).mode & 0o777).toBe(0o755);
    expect(await readFile(path.join(postgres, '..', '..', 'lib', 'library.so'), 'utf8')).toBe('library');
    const again = await prepareBinaries(directory, account, () => Promise.resolve(installed));
    expect(again.postgres).toBe(postgres);
  });
});

describe('the default data directory', () => {
  const asRoot = { uid: 0, accounts: [{ ...account, name: 'postgres' }] };

  it('is the preferred one for an ordinary user, and for root where Postgres may enter', async () => {
    const preferred = path.join(directory, 'checkout', '.vault');
    expect(await defaultDataDirectory(preferred, asRoot)).toBe(preferred);
    await chmod(path.join(directory, 'checkout'), 0o700);
    expect(await defaultDataDirectory(preferred, { uid: 1000, accounts: [] })).toBe(preferred);
  });

  it('is the same directory below /var/lib each time for root in an unreadable home', async () => {
    await chmod(path.join(directory, 'checkout'), 0o700);
    const [one, again] = [1, 2].map(() =>
      defaultDataDirectory(path.join(directory, 'checkout', '.vault'), asRoot),
    );
    expect(await one).toMatch(/^\/var\/lib\/token-vault\/[0-9a-f]{12}$/);
    expect(await one).toBe(await again);
  });
});
