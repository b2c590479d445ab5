import { execFile } from 'node:child_process';
import { readFile, readdir, readlink } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);
const hasProc = process.platform === 'linux';

interface Stat {
  readonly state: string;
  readonly startTicks: string;
}

/** `/proc/<pid>/stat`, whose second field (the command) may contain spaces and parentheses. */
async function readStat(pid: number): Promise<Stat | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  const fields = text?.slice(text.lastIndexOf(')') + 2).split(' ');
  return fields ? { state: fields[0] ?? '', startTicks: fields[19] ?? '' } : undefined;
}

async function ps(pid: number, column: string): Promise<string | undefined> {
  const done = await run('ps', ['-o', `${column}=`, '-p', String(pid)]).catch(() => undefined);
  return done?.stdout.trim() || undefined;
}

/**
 * Distinguishes a process from a later one with the same pid: pids are reused after a reboot, and in a container at once. Undefined when
 * the process does not run. A zombie, which stays in a container without an init, does not run.
 */
export async function processIdentity(pid: number): Promise<string | undefined> {
  if (!hasProc) {
    const started = await ps(pid, 'lstart');
    return started && `${pid} ${started}`;
  }
  const stat = await readStat(pid);
  if (!stat || stat.state === 'Z' || stat.state === 'X') return undefined;
  const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '');
  return `${pid} ${boot.trim()} ${stat.startTicks}`;
}

/** Whether `pid` is a Postgres (postmaster or backend) whose working directory is this data directory. */
export async function isPostgresOf(pid: number, dataDirectory: string): Promise<boolean> {
  if (!hasProc) return ((await ps(pid, 'command')) ?? '').includes(`-D ${dataDirectory}`);
  const [cwd, executable] = await Promise.all(
    ['cwd', 'exe'].map((link) => readlink(`/proc/${pid}/${link}`).catch(() => '')),
  );
  return cwd === dataDirectory && path.basename(executable ?? '').startsWith('postgres');
}

/** All live Postgres processes of this data directory. On systems other than Linux only the postmaster is found. */
export async function postgresProcessesOf(dataDirectory: string): Promise<number[]> {
  const pids = hasProc ? await readdir('/proc') : await listedPids();
  const found = await Promise.all(
    pids
      .filter((name) => /^\d+$/.test(name))
      .map(async (name) => {
        const pid = Number(name);
        return (await isPostgresOf(pid, dataDirectory)) && (await processIdentity(pid)) ? [pid] : [];
      }),
  );
  return found.flat();
}

async function listedPids(): Promise<string[]> {
  const done = await run('ps', ['-axo', 'pid=,command=']).catch(() => undefined);
  const lines = done?.stdout.split('\n') ?? [];
  return lines.filter((line) => line.includes('postgres')).map((line) => line.trim().split(' ')[0] ?? '');
}

/** Waits until the condition holds; false when it does not hold within `timeoutMs`. */
export async function holdsWithin(timeoutMs: number, condition: () => Promise<boolean>): Promise<boolean> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    if (await condition()) return true;
    if (performance.now() >= deadline) return false;
    await sleep(20);
  }
}

/** Sends a signal to a process that may have ended. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
