import { randomBytes } from 'node:crypto';
import { link, open, rename, rm, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { keyLength } from '../aead.ts';
import { RootKeyUnusableError } from '../errors.ts';
import { localRootKey, parseRootKey } from './local.ts';
import type { RootKeyProvider } from './port.ts';

export interface FileRootKeyOptions {
  /** Make a new key when there is no file. Only for a vault that has no keys yet: see `isKeyRingInitialised`. */
  readonly initialise?: boolean;
}

const longestFile = 1024;

/**
 * A root key in a file: 32 bytes as base64 or hex, readable by its owner only.
 * @throws RootKeyUnusableError naming the path and what to do, when it is missing (and not to be made), readable by
 *   others, of another owner, or not a key.
 */
export async function fileRootKey(path: string, options: FileRootKeyOptions = {}): Promise<RootKeyProvider> {
  const text = (await read(path)) ?? (options.initialise ? await initialise(path) : undefined);
  if (text === undefined) {
    throw new RootKeyUnusableError(
      `root key file ${path} is missing: put back the file this vault was started with`,
    );
  }
  return localRootKey(parseRootKey(text, `root key file ${path}`));
}

async function initialise(path: string): Promise<string | undefined> {
  try {
    await create(path);
  } catch (error) {
    throw new RootKeyUnusableError(`root key file ${path} cannot be written: ${codeOf(error)}`, {
      cause: error,
    });
  }
  // Read back: another process may have been first, and then its key is the key.
  return read(path);
}

async function read(path: string): Promise<string | undefined> {
  let file: FileHandle;
  try {
    file = await open(path, 'r');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw new RootKeyUnusableError(`root key file ${path} cannot be read: ${codeOf(error)}`, {
      cause: error,
    });
  }
  try {
    await refuseUnsafe(file, path);
    return await file.readFile('utf8');
  } finally {
    await file.close();
  }
}

async function refuseUnsafe(file: FileHandle, path: string): Promise<void> {
  const status = await file.stat();
  if (!status.isFile() || status.size > longestFile) {
    throw new RootKeyUnusableError(`root key file ${path} is not a root key file`);
  }
  const user = process.geteuid?.();
  if (user === undefined) return; // Windows: access is a matter of its own lists, mode bits say nothing
  if (status.uid !== user) {
    throw new RootKeyUnusableError(
      `root key file ${path} belongs to user ${status.uid}, not to user ${user} who runs the vault: change its owner`,
    );
  }
  if ((status.mode & 0o077) !== 0) {
    const mode = (status.mode & 0o777).toString(8);
    throw new RootKeyUnusableError(
      `root key file ${path} is open to others (mode ${mode}): run chmod 600 ${path}`,
    );
  }
}

/** Leaves either no file or a whole, durable one; never replaces a file that is there. */
async function create(path: string): Promise<void> {
  const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`;
  try {
    const file = await open(temporary, 'wx', 0o600);
    try {
      await file.writeFile(`${randomBytes(keyLength).toString('base64')}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
    await moveUnlessPresent(temporary, path);
  } finally {
    await rm(temporary, { force: true });
  }
  await syncDirectory(dirname(path));
}

/** A hard link fails when the name is taken, where a rename would replace a key written a moment ago. */
async function moveUnlessPresent(from: string, to: string): Promise<void> {
  try {
    await link(from, to);
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return;
    // Some file systems know no hard links.
    if (!['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'].includes(codeOf(error))) throw error;
    await rename(from, to);
  }
}

async function syncDirectory(path: string): Promise<void> {
  if (process.platform === 'win32') return; // a directory cannot be opened there
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
}
