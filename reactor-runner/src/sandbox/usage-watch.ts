import { readFileSync } from 'node:fs';

/** Kernel clock ticks a second; Linux reports process times in these on every supported architecture. */
const ticksPerSecond = 100;
const pageBytes = 4096;

export interface ProcessUsage {
  readonly cpuMs: number;
  readonly rssMb: number;
  readonly threads: number;
}

/** What a process has used so far; undefined where there is no /proc or no such process. */
export function processUsage(pid: number): ProcessUsage | undefined {
  try {
    // The name in parentheses may hold spaces: fields are counted from after it. utime is field 14, stime 15, threads 20, rss 24.
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
