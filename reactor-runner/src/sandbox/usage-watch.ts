import { readdirSync, readFileSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';

/** Kernel clock ticks a second; Linux reports process times in these on every supported architecture. */
const ticksPerSecond = 100;
const pageBytes = 4096;
const lowestPriority = 19;
/** Below that of this service and of Postgres, which then answer beside any amount of tenants' code. */
const ordinaryPriority = Math.min(lowestPriority, getPriority() + 10);

export interface ProcessUsage {
  readonly cpuMs: number;
  readonly rssMb: number;
}

/** What a process has used so far; undefined where there is no /proc or no such process. */
export function processUsage(pid: number): ProcessUsage | undefined {
  try {
    // The name in parentheses may hold spaces: fields are counted from after it. utime is field 14, stime 15, rss 24.
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [utime, stime, rss] = [fields[11], fields[12], fields[21]].map(Number);
    if (utime === undefined || stime === undefined || rss === undefined) return undefined;
    return { cpuMs: ((utime + stime) * 1_000) / ticksPerSecond, rssMb: (rss * pageBytes) / 1_048_576 };
  } catch {
    return undefined;
  }
}

/** To be called on a process just started: threads inherit the priority of the one that starts them. */
export function makeOrdinary(pid: number): void {
  tryPriority(pid, ordinaryPriority);
}

/**
 * A run that burns CPU goes to the lowest priority: it then gets what others leave, so endless loops of one tenant hardly
 * delay another's runs.
 */
export function demote(pid: number): void {
  tryPriority(pid, lowestPriority);
}

/** Gives a process its ordinary priority back, which an unprivileged host refuses. */
export function promote(pid: number): boolean {
  return tryPriority(pid, ordinaryPriority);
}

/** Sets the priority of every thread of a process: Linux keeps it by thread. */
function tryPriority(pid: number, priority: number): boolean {
  let isSet = true;
  for (const thread of threadsOf(pid)) {
    try {
      setPriority(thread, priority);
    } catch {
      // The thread has ended, or the host does not allow it: fairness then rests on the scheduler alone.
      isSet = false;
    }
  }
  return isSet;
}

function threadsOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).map(Number);
  } catch {
    return [];
  }
}
