import { realpath, stat } from 'node:fs/promises';
import { clusterDirectory } from './cluster.ts';
import { passwordFiles, readPassword } from './passwords.ts';
import { socketDirectoryFor } from './socket-directory.ts';
import { connectionUrl } from './supervisor.ts';
import { isSupervised } from './supervisor-lock.ts';

/** The state of a data directory, as another process sees it. */
export type RunningPostgres =
  /** No vault has ever started here. */
  | { readonly kind: 'absent' }
  /** No supervisor holds the directory. */
  | { readonly kind: 'stopped' }
  /**
   * A supervisor holds the directory; Postgres may still be starting or already stopping. The URL holds the password: never log it. Undefined
   * during the first start of this release.
   */
  | { readonly kind: 'supervised'; readonly url: string | undefined };

/**
 * For the account of the supervisor, or root: other accounts cannot use the socket and the password. Never asks Postgres: a leftover
 * Postgres of a killed vault would answer too, and is about to be stopped.
 */
export async function runningPostgres(dataDir: string): Promise<RunningPostgres> {
  const directory = clusterDirectory(dataDir);
  if (!(await stat(directory).catch(() => undefined))) return { kind: 'absent' };
  const real = await realpath(dataDir);
  if (!isSupervised(real)) return { kind: 'stopped' };
  const password = await readPassword(directory, passwordFiles.vault);
  const url = password === undefined ? undefined : connectionUrl(socketDirectoryFor(real), password);
  return { kind: 'supervised', url };
}
