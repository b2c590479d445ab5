import { randomBytes } from 'node:crypto';
import { link, readFile, rename, unlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { processIdentity } from './processes.ts';
import { StartError } from './start-error.ts';

/**
 * One supervisor a data directory. Without it a second vault would take the running Postgres of the first for an
 * orphan and stop it. The holder is named by process identity, so that what a killed one leaves is void.
 * Gives the function that releases it. @throws StartError when a live process holds it.
 */
export async function acquireSupervisorLock(dataDir: string): Promise<() => Promise<void>> {
  const file = path.join(dataDir, 'supervisor');
  const candidate = `${file}.${randomBytes(6).toString('hex')}`;
  const content = `${await processIdentity(process.pid)}\n${randomBytes(8).toString('hex')}\n`;
  await writeFile(candidate, content, { mode: 0o600, flag: 'wx' });
  try {
    while (!(await linked(candidate, file))) await discardVoid(file, candidate);
  } finally {
    await unlink(candidate);
  }
  return async () => {
    if ((await readOrNothing(file)) === content) await unlink(file);
  };
}

/** A hard link appears complete or not at all, and never replaces one that is there. */
async function linked(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

async function discardVoid(file: string, candidate: string): Promise<void> {
  const seen = await readOrNothing(file);
  if (seen === undefined) return;
  const identity = seen.split('\n')[0] ?? '';
  const pid = Number.parseInt(identity, 10);
  if (pid > 0 && (await processIdentity(pid)) === identity) {
    throw new StartError(
      `the data directory ${path.dirname(file)} is in use by another vault (process ${pid})`,
    );
  }
  // Two starters may both find it void: the slower must not throw away what the faster has just put there.
  const aside = `${candidate}.void`;
  await rename(file, aside).catch(() => undefined);
  const taken = await readOrNothing(aside);
  if (taken !== undefined && taken !== seen) await link(aside, file).catch(() => undefined);
  await unlink(aside).catch(() => undefined);
}

async function readOrNothing(file: string): Promise<string | undefined> {
  return readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
}
