import { createHash } from 'node:crypto';
import { chown, lstat, mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Account } from './account.ts';
import { socketPort } from './settings.ts';
import { StartError } from './start-error.ts';

// sun_path holds 108 bytes on Linux and 104 on macOS, including the terminating zero.
const maxSocketPathBytes = process.platform === 'linux' ? 107 : 103;

function fits(directory: string): boolean {
  return Buffer.byteLength(path.join(directory, `.s.PGSQL.${socketPort}`)) <= maxSocketPathBytes;
}

/**
 * Beside the cluster. When that path is too long for a socket: a directory below the temporary directory, unique to this data directory.
 */
export function socketDirectoryFor(dataDir: string): string {
  const name = `token-vault-${createHash('sha256').update(dataDir).digest('hex').slice(0, 16)}`;
  const candidates = [path.join(dataDir, 'socket'), path.join(tmpdir(), name), path.join('/tmp', name)];
  return candidates.find(fits) ?? path.join('/tmp', name);
}

/**
 * Creates the directory, private to the account. So no other account can connect, or have created the directory before.
 * @throws StartError when a file of that name exists.
 */
export async function createSocketDirectory(directory: string, account: Account | undefined): Promise<void> {
  await mkdir(directory, { mode: 0o700 }).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code === 'EEXIST') throw new StartError(`${directory} exists already and cannot be removed`);
    throw error;
  });
  if (account) await chown(directory, account.uid, account.gid);
  const info = await lstat(directory);
  if (!info.isDirectory()) throw new StartError(`${directory} was replaced while Postgres was starting`);
}
