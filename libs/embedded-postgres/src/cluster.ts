import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chown, mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Account } from './account.ts';
import { newPassword, passwordFiles, syncDirectory, writePassword } from './passwords.ts';
import { StartError } from './start-error.ts';
import { superuser } from './vault-role.ts';

/** A data directory beside the passwords of its roles. */
export interface Cluster {
  readonly directory: string;
  readonly dataDirectory: string;
}

export interface ClusterOptions {
  readonly dataDir: string;
  readonly initdb: string;
  readonly account: Account | undefined;
  /** False only for throw-away clusters of tests. */
  readonly isDurable: boolean;
}

/** The directory of the cluster in a vault's data directory. */
export function clusterDirectory(dataDir: string): string {
  return path.join(dataDir, 'cluster');
}

/**
 * The cluster in `dataDir`, created by initdb when there is none. initdb works in a directory of another name, which is renamed when all of
 * it is on the disk: a first start that was killed leaves no partial cluster.
 * @throws StartError when initdb fails.
 */
export async function openOrCreateCluster(options: ClusterOptions): Promise<Cluster> {
  const directory = clusterDirectory(options.dataDir);
  for (const name of await readdir(options.dataDir)) {
    if (name.startsWith('unfinished-')) {
      await rm(path.join(options.dataDir, name), { recursive: true, force: true, maxRetries: 5 });
    }
  }
  if (!(await stat(directory).catch(() => undefined))) await createCluster(options, directory);
  return { directory, dataDirectory: path.join(directory, 'data') };
}

async function createCluster(options: ClusterOptions, directory: string): Promise<void> {
  const unfinished = path.join(options.dataDir, `unfinished-${randomBytes(6).toString('hex')}`);
  await mkdir(unfinished, { mode: 0o700 });
  await writePassword({ ...options, directory: unfinished }, passwordFiles.superuser, newPassword());
  if (options.account) await chown(unfinished, options.account.uid, options.account.gid);
  try {
    await runInitdb(options, unfinished);
    if (options.isDurable) await syncDirectory(unfinished);
    await rename(unfinished, directory);
    if (options.isDurable) await syncDirectory(options.dataDir);
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true }).catch(() => undefined);
    throw error;
  }
}

async function runInitdb(options: ClusterOptions, directory: string): Promise<void> {
  const args = [
    `--pgdata=${path.join(directory, 'data')}`,
    `--username=${superuser}`,
    `--pwfile=${path.join(directory, passwordFiles.superuser)}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    // Ordered by code point on every machine and release, but with Unicode upper and lower case.
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
    '--locale=C',
    '--data-checksums',
    ...(options.isDurable ? [] : ['--no-sync']),
  ];
  const child = spawn(options.initdb, args, {
    ...identityOf(options.account),
    env: postgresEnvironment(),
    cwd: options.dataDir,
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-4096)));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('error', reject).on('close', resolve);
  }).catch((error: unknown) => {
    throw cannotRun(options.initdb, error);
  });
  if (code !== 0) throw new StartError(`the database could not be created: ${lastComplaint(said)}`);
}

/** The last line that names a problem, without its prefix. */
function lastComplaint(said: string): string {
  const lines = said.split('\n').filter((line) => line.trim() !== '');
  const complaints = lines.filter((line) => /error:|FATAL:|PANIC:|cannot|could not/i.test(line));
  return (complaints.at(-1) ?? lines.at(-1) ?? 'initdb ended without a message').replace(
    /^.*?(error|FATAL|PANIC):\s*/,
    '',
  );
}

export function identityOf(account: Account | undefined): { uid?: number; gid?: number } {
  return account ? { uid: account.uid, gid: account.gid } : {};
}

/** Postgres gets no secret of the vault's environment, and its messages are in English whatever the locale of the host. */
export function postgresEnvironment(): NodeJS.ProcessEnv {
  return { PATH: process.env['PATH'] ?? '', LC_ALL: 'C', TZ: 'UTC' };
}

export function cannotRun(program: string, error: unknown): StartError {
  const code = (error as NodeJS.ErrnoException).code;
  const hint = code === 'ENOENT' ? ' (these binaries need glibc; Alpine has musl)' : '';
  return new StartError(`cannot run ${program}: ${code}${hint}`, { cause: error });
}
