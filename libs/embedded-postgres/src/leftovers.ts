import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import type { Logger } from './logger.ts';
import { holdsWithin, isPostgresOf, postgresProcessesOf, signal } from './processes.ts';
import { StartError } from './start-error.ts';

/** First line of `postmaster.pid`; undefined when the file is absent or incomplete. */
async function readPostmasterPid(dataDirectory: string): Promise<number | undefined> {
  const text = await readFile(path.join(dataDirectory, 'postmaster.pid'), 'utf8').catch(() => '');
  const pid = Number.parseInt(text, 10);
  return pid > 0 ? pid : undefined;
}

/**
 * Removes leftovers of a killed run: a Postgres that still runs (its supervisor was killed), backends whose postmaster was killed, and lock
 * files that name a process of another program. Call it while holding the supervisor lock.
 * @throws StartError when a leftover process cannot be stopped.
 */
export async function clearLeftovers(
  dataDirectory: string,
  socketDirectory: string,
  logger: Logger,
): Promise<void> {
  await stopOrphans(dataDirectory, logger);
  const pid = await readPostmasterPid(dataDirectory);
  // Not removed when that pid is free: Postgres then takes the file over and checks its shared memory too. But Postgres would refuse to
  // start for ever when the pid now belongs to another process (usual in containers) or a zombie.
  if (pid !== undefined && isTaken(pid) && !(await isPostgresOf(pid, dataDirectory))) {
    logger.warn({ pid }, 'removed a stale Postgres lock file');
    await rm(path.join(dataDirectory, 'postmaster.pid'), { force: true });
  }
  // No process uses this data directory now, so no process owns a socket in its private socket directory.
  await rm(socketDirectory, { recursive: true, force: true });
}

async function stopOrphans(dataDirectory: string, logger: Logger): Promise<void> {
  const orphans = await postgresProcessesOf(dataDirectory);
  if (orphans.length === 0) return;
  const isGone = async () => (await postgresProcessesOf(dataDirectory)).length === 0;
  const postmaster = await readPostmasterPid(dataDirectory);
  logger.warn({ postmaster, processes: orphans.length }, 'stopping a Postgres left over from a killed run');
  if (postmaster !== undefined && orphans.includes(postmaster)) signal(postmaster, 'SIGINT');
  // Backends without a postmaster end by themselves as soon as they notice.
  if (await holdsWithin(30_000, isGone)) return;
  for (const pid of await postgresProcessesOf(dataDirectory)) signal(pid, 'SIGQUIT');
  if (await holdsWithin(10_000, isGone)) return;
  for (const pid of await postgresProcessesOf(dataDirectory)) signal(pid, 'SIGKILL');
  if (await holdsWithin(5_000, isGone)) return;
  const left = await postgresProcessesOf(dataDirectory);
  throw new StartError(`a Postgres left over from a killed run does not stop (processes ${left.join(', ')})`);
}

function isTaken(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
