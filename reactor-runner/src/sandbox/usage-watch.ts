import { readdirSync, readFileSync } from 'node:fs';
import type { SandboxLimits } from './limits.ts';

/** Kernel clock ticks a second; Linux reports process times in these on every supported architecture. */
const ticksPerSecond = 100;
const pageBytes = 4096;

export interface ProcessUsage {
  readonly cpuMs: number;
  readonly rssMb: number;
  readonly threads: number;
}

/** The resources that a process has used so far. Undefined where there is no /proc or no such process. */
export function processUsage(pid: number): ProcessUsage | undefined {
  try {
    // The name in parentheses may hold spaces, so fields are counted from after it. utime is field 14, stime 15,
    // threads 20, rss 24.
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [utime, stime, threads, rss] = [fields[11], fields[12], fields[17], fields[21]].map(Number);
    if (utime === undefined || stime === undefined || threads === undefined || rss === undefined)
      return undefined;
    const cpuMs = ((utime + stime) * 1_000) / ticksPerSecond;
    return { cpuMs, rssMb: (rss * pageBytes) / 1_048_576, threads };
  } catch {
    return undefined;
  }
}

/**
 * Whether all threads of the process sleep: none runs or wants a core. False where there is no /proc or no such process.
 */
export function isAsleep(pid: number): boolean {
  try {
    const threads = readdirSync(`/proc/${pid}/task`);
    return threads.every((thread) => stateOf(`/proc/${pid}/task/${thread}/stat`) === 'S');
  } catch {
    return false;
  }
}

/** Field 3 of proc_pid_stat(5), the first one after the name in parentheses. */
function stateOf(path: string): string | undefined {
  const stat = readFileSync(path, 'latin1');
  return stat[stat.lastIndexOf(')') + 2];
}

/** Why a run that uses this much is ended. `cpuMs`: of the run. */
export function excessOf(
  { rssMb, threads, cpuMs }: ProcessUsage,
  limits: SandboxLimits,
): 'killed' | 'out-of-memory' | 'timed-out' | undefined {
  if (rssMb > limits.childRssMb) return 'out-of-memory';
  if (threads > limits.threads) return 'killed';
  return cpuMs > limits.cpuMs ? 'timed-out' : undefined;
}
