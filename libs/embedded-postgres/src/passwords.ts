import { randomBytes } from 'node:crypto';
import { open, readFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import type { Account } from './account.ts';

/** A directory with passwords, and the account that Postgres runs as. */
export interface PasswordDirectory {
  readonly directory: string;
  readonly account: Account | undefined;
  /** False only for throw-away clusters of tests. */
  readonly isDurable: boolean;
}

/** The files of a cluster with a password each. Older releases read `password` too, so one of them can be started again. */
export const passwordFiles = {
  superuser: 'password',
  /** While the superuser's password is changed, Postgres takes either this one or the old one. */
  nextSuperuser: 'next-password',
  vault: 'vault-password',
} as const;

export function newPassword(): string {
  return randomBytes(32).toString('base64url');
}

/** Undefined when there is no such file. */
export async function readPassword(directory: string, name: string): Promise<string | undefined> {
  try {
    return (await readFile(path.join(directory, name), 'utf8')).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Writes the whole file or none of it. It belongs to the account of Postgres, as the directory does. */
export async function writePassword(place: PasswordDirectory, name: string, password: string): Promise<void> {
  const unfinished = path.join(place.directory, `${name}.unfinished`);
  await rm(unfinished, { force: true });
  // Root writes where the account can write too, so it must not follow a link.
  const file = await open(unfinished, 'wx', 0o600);
  try {
    if (place.account) await file.chown(place.account.uid, place.account.gid);
    await file.writeFile(`${password}\n`);
    if (place.isDurable) await file.sync();
  } finally {
    await file.close();
  }
  await movePassword(place, `${name}.unfinished`, name);
}

export async function movePassword(place: PasswordDirectory, from: string, to: string): Promise<void> {
  await rename(path.join(place.directory, from), path.join(place.directory, to));
  if (place.isDurable) await syncDirectory(place.directory);
}

/** Fsync of a directory makes a rename in it durable. */
export async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r');
  await handle.sync().finally(() => handle.close());
}
