import { randomBytes } from 'node:crypto';
import {
  chmod,
  chown,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { environmentRootKey, fileRootKey, RootKeyUnusableError, SealBrokenError } from '../src/index.ts';

const aad = Buffer.from('tenant');

describe('a root key from the environment', () => {
  const key = randomBytes(32);

  it.each(['hex', 'base64', 'base64url'] as const)('is the same key as %s', async (encoding) => {
    const provider = environmentRootKey(` ${key.toString(encoding)}\n`);
    expect(provider.id).toBe(environmentRootKey(key.toString('hex')).id);
    const wrapped = await provider.wrap(Buffer.alloc(32, 5), aad);
    expect(await environmentRootKey(key.toString('base64')).unwrap(wrapped, aad)).toEqual(
      Buffer.alloc(32, 5),
    );
  });

  it.each([
    ['empty', ''],
    ['short', randomBytes(31).toString('base64')],
    ['long', randomBytes(33).toString('base64')],
    ['half hex', randomBytes(16).toString('hex')],
    ['prose', 'correct horse battery staple correct horse!'],
    ['zeros', '0'.repeat(64)],
  ])('is refused when %s, in one line without the value', (_name, value) => {
    const error = captured(() => environmentRootKey(value));
    expect(error).toBeInstanceOf(RootKeyUnusableError);
    const { message } = error as Error;
    expect(message).toMatch(/^VAULT_ROOT_KEY is not .+openssl rand -base64 32\)$/);
    if (value) expect(message).not.toContain(value);
  });

  it('unwraps neither a key that another key wrapped, nor its own under another binding, nor an altered one', async () => {
    const provider = environmentRootKey(key.toString('hex'));
    const other = environmentRootKey(randomBytes(32).toString('hex'));
    const wrapped = await provider.wrap(Buffer.alloc(32, 5), aad);
    expect(other.id).not.toBe(provider.id);
    await expect(other.unwrap(wrapped, aad)).rejects.toThrow(SealBrokenError);
    await expect(provider.unwrap(wrapped, Buffer.from('tenanT'))).rejects.toThrow(SealBrokenError);
    for (let index = 0; index < wrapped.length; index += 1) {
      const altered = Buffer.from(wrapped);
      altered[index] = (altered[index] ?? 0) ^ 1;
      await expect(provider.unwrap(altered, aad)).rejects.toThrow(SealBrokenError);
      await expect(provider.unwrap(wrapped.subarray(0, index), aad)).rejects.toThrow(SealBrokenError);
    }
  });
});

describe('a root key file', () => {
  let directory: string;
  let path: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'root-key-'));
    path = join(directory, 'root.key');
  });
  afterEach(() => rm(directory, { recursive: true }));

  it('is made when asked, for its owner only, and found again', async () => {
    const made = await fileRootKey(path, { initialise: true });
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(Buffer.from(await readFile(path, 'utf8'), 'base64').length).toBe(32);
    expect((await fileRootKey(path)).id).toBe(made.id);
    expect((await fileRootKey(path, { initialise: true })).id).toBe(made.id);
    expect(environmentRootKey(await readFile(path, 'utf8')).id).toBe(made.id);
    expect(await readdir(directory)).toEqual(['root.key']);
  });

  it('is the same for processes that start together', async () => {
    const made = await Promise.all(Array.from({ length: 20 }, () => fileRootKey(path, { initialise: true })));
    expect(new Set(made.map((provider) => provider.id)).size).toBe(1);
    expect((await fileRootKey(path)).id).toBe(made[0]?.id);
    expect(await readdir(directory)).toEqual(['root.key']);
  });

  it('is not made unless asked', async () => {
    await expect(fileRootKey(path)).rejects.toThrow(/^root key file .+ is missing: put back the file/);
    expect(await readdir(directory)).toEqual([]);
  });

  it.each([0o640, 0o604, 0o666, 0o610])('is refused with mode %o', async (mode) => {
    await fileRootKey(path, { initialise: true });
    await chmod(path, mode);
    await expect(fileRootKey(path)).rejects.toThrow(
      `is open to others (mode ${mode.toString(8)}): run chmod 600 ${path}`,
    );
  });

  it.skipIf(process.geteuid?.() !== 0)('is refused when it belongs to another user', async () => {
    await fileRootKey(path, { initialise: true });
    await chown(path, 12345, 12345);
    await expect(fileRootKey(path)).rejects.toThrow(/belongs to user 12345, not to user 0/);
  });

  it.each([
    ['empty', ''],
    ['garbage', 'hello\n'],
    ['two keys', `${randomBytes(32).toString('base64')}\n${randomBytes(32).toString('base64')}\n`],
    ['huge', 'A'.repeat(1_000_000)],
  ])('is refused when it is %s, and left as it is', async (_name, content) => {
    await writeFile(path, content, { mode: 0o600 });
    await expect(fileRootKey(path, { initialise: true })).rejects.toThrow(RootKeyUnusableError);
    expect(await readFile(path, 'utf8')).toBe(content);
  });

  it('is refused when it is a directory, or in a directory that does not exist', async () => {
    await mkdir(path);
    await expect(fileRootKey(path, { initialise: true })).rejects.toThrow('is not a root key file');
    await expect(fileRootKey(join(directory, 'no', 'key'), { initialise: true })).rejects.toThrow(
      /cannot be written: ENOENT$/,
    );
  });

  it('may be reached through a link, as orchestrators mount secrets', async () => {
    const made = await fileRootKey(path, { initialise: true });
    await symlink(path, join(directory, 'link'));
    expect((await fileRootKey(join(directory, 'link'))).id).toBe(made.id);
  });
});

function captured(run: () => unknown): unknown {
  try {
    return run();
  } catch (error) {
    return error;
  }
}
