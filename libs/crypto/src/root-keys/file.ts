import { randomBytes } from 'node:crypto';
import { link, open, rename, rm, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { keyLength } from '../aead.ts';
import { RootKeyUnusableError } from '../errors.ts';
import { localRootKey, parseRootKey } from './local.ts';
import type { RootKeyProvider } from './port.ts';

export interface FileRootKeyOptions {
  /** Creates a new key when the file does not exist. Only for a vault that has no keys yet: see `isKeyRingInitialised`. */
  readonly initialise?: boolean;
}

const longestFile = 1024;

/**
 * A root key in a file: 32 bytes as base64 or hex, readable by its owner only.
 * @throws RootKeyUnusableError that names the path and the remedy, when the file is missing (and is not to be created), readable by others,
 * of another owner, or not a key.
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
  // Read the file again: if another process created it first, its key is the root key.
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
  if (user === undefined) return; // Windows controls access by lists of its own; the mode bits have no meaning there
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

/** Creates either no file or a complete, durable one. Never replaces an existing file. */
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

/** A hard link fails when the name exists. A rename would replace a key that another process has just written. */
async function moveUnlessPresent(from: string, to: string): Promise<void> {
  try {
    await link(from, to);
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return;
    // Some file systems have no hard links.
    if (!['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'].includes(codeOf(error))) throw error;
    await rename(from, to);
  }
}

async function syncDirectory(path: string): Promise<void> {
  if (process.platform === 'win32') return; // Windows cannot open a directory
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
