import { lstatSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { holdsWithin } from './processes.ts';
import { DataDirectoryInUseError, StartError } from './start-error.ts';

const sqliteBusy = 5;

/**
 * Allows one supervisor for each data directory. Without the lock a second vault would take the running Postgres of the first for a
 * leftover and stop it. Node has no `flock`. The exclusive transaction of an empty SQLite file is a lock of the kernel, which ends with the
 * process in every case. (A file with a pid cannot be taken over without a race: of five starters that found the file of an ended process,
 * two went on.) Never read `supervisor.lock` in this process: by POSIX, closing the file would release the lock.
 *
 * Returns the function that releases the lock; it may be called any number of times. @throws StartError when the lock is held.
 */
export async function acquireSupervisorLock(dataDir: string): Promise<() => Promise<void>> {
  const pidFile = path.join(dataDir, 'supervisor.pid');
  let lock = open(dataDir);
  // The lock of a vault that was just killed ends when the kernel has removed its process.
  await holdsWithin(1000, async () => (lock ??= open(dataDir)) !== undefined);
  if (!lock) throw await inUse(dataDir, pidFile);
  const held = lock;
  try {
    // Root may write where another account can write too (hand-over): never follow a link.
    await rm(pidFile, { force: true });
    await writeFile(pidFile, `${process.pid}\n`, { mode: 0o600, flag: 'wx' });
  } catch (error) {
    held.close();
    throw error;
  }
  return async () => {
    if (!held.isOpen) return;
    await rm(pidFile, { force: true });
    if (held.isOpen) held.close();
  };
}

/** Whether a supervisor, in any process, holds the data directory now. */
export function isSupervised(dataDir: string): boolean {
  const lock = open(dataDir);
  lock?.close();
  return lock === undefined;
}

/** Undefined when another process, or another supervisor in this process, holds the lock. */
function open(dataDir: string): DatabaseSync | undefined {
  const file = path.join(dataDir, 'supervisor.lock');
  if (lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink())
    throw new StartError(`${dataDir} cannot be used: supervisor.lock is a symbolic link`);
  let lock: DatabaseSync | undefined;
  try {
    lock = new DatabaseSync(file, { timeout: 0 });
    lock.exec('begin exclusive');
    return lock;
  } catch (error) {
    lock?.close();
    const { errcode, errstr } = error as { errcode?: number; errstr?: string };
    if (errcode === sqliteBusy) return undefined;
    throw new StartError(`${dataDir} cannot be used: ${errstr ?? String(error)}`, { cause: error });
  }
}

async function inUse(dataDir: string, pidFile: string): Promise<StartError> {
  const pid = (await readFile(pidFile, 'utf8').catch(() => '')).trim();
  return new DataDirectoryInUseError(
    `the data directory ${dataDir} is in use by another vault${pid && ` (process ${pid})`}`,
  );
}
