import { readFile, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { clusterDirectory } from './cluster.ts';
import { socketDirectoryFor } from './socket-directory.ts';
import { connectionUrl } from './supervisor.ts';
import { isSupervised } from './supervisor-lock.ts';

/** What there is on a data directory, as another process sees it. */
export type RunningPostgres =
  /** Nothing has ever started here. */
  | { readonly kind: 'absent' }
  /** Nobody holds it. */
  | { readonly kind: 'stopped' }
  /** A supervisor holds it; Postgres may still be starting or already stopping. The URL holds the password: never log it. */
  | { readonly kind: 'supervised'; readonly url: string };

/**
 * For the account that the supervisor runs under, or root: the socket and the password are open to nobody else. Never asks
 * Postgres itself: one that a killed vault left behind would answer too, and is about to be stopped.
 */
export async function runningPostgres(dataDir: string): Promise<RunningPostgres> {
  const directory = clusterDirectory(dataDir);
  if (!(await stat(directory).catch(() => undefined))) return { kind: 'absent' };
  const real = await realpath(dataDir);
  if (!isSupervised(real)) return { kind: 'stopped' };
  const password = (await readFile(path.join(directory, 'password'), 'utf8')).trim();
  return { kind: 'supervised', url: connectionUrl(socketDirectoryFor(real), { password }) };
}
