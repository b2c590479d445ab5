import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

interface Usage {
  /** User and system time of all processes, those that have ended too. */
  readonly cpuSeconds: number;
  /** Proportional set size: memory that processes share is counted once. */
  readonly memoryMb: number;
}

/** Of all processors, since the machine was started, in ticks. */
interface MachineTimes {
  readonly idle: number;
  /** What the host gave to other machines while this one would have worked. */
  readonly stolen: number;
  readonly all: number;
}

const ticksPerSecond = 100;

function readOr(path: string, fallback: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return fallback;
  }
}

/** A process and all its descendants; those that leave its group too (Postgres). */
function family(root: number): number[] {
  const parents = new Map<number, number>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const stat = readOr(`/proc/${name}/stat`, '');
    const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
    parents.set(Number(name), parent);
  }
  const members = new Set([root]);
  for (let grew = true; grew;) {
    grew = false;
    for (const [pid, parent] of parents) {
      if (members.has(parent) && !members.has(pid)) {
        members.add(pid);
        grew = true;
      }
    }
  }
  return [...members];
}

/** Linux only: zeros elsewhere. */
export function machineTimes(): MachineTimes {
  // cpu user nice system idle iowait irq softirq steal; what comes after is part of user and nice.
  const times = readOr('/proc/stat', '').split('\n', 1)[0]?.trim().split(/\s+/).slice(1, 9).map(Number) ?? [];
  const all = times.reduce((sum, time) => sum + time, 0);
  return { idle: times[3] ?? 0, stolen: times[7] ?? 0, all };
}

function memoryKilobytes(pid: number): number {
  return Number(/^Pss:\s+(\d+)/m.exec(readOr(`/proc/${pid}/smaps_rollup`, ''))?.[1] ?? 0);
}

function programOf(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/exe`);
  } catch {
    return '';
  }
}

/** What the processes of the sandbox hold: the server's children that are Node as well. Linux only. */
export function sandboxMemoryMb(root: number): number {
  const children = family(root).filter((pid) => pid !== root && programOf(pid) === programOf(root));
  return children.reduce((sum, pid) => sum + memoryKilobytes(pid), 0) / 1024;
}

/** What the server processes have used; Linux only. */
export function usageOf(root: number): Usage {
  let ticks = 0;
  let kilobytes = 0;
  for (const pid of family(root)) {
    const stat = readOr(`/proc/${pid}/stat`, '');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    // utime, stime, and the same of children that have ended (cutime, cstime): a sandbox child lives for some runs only.
    for (const field of fields.slice(11, 15)) ticks += Number(field);
    kilobytes += memoryKilobytes(pid);
  }
  return { cpuSeconds: ticks / ticksPerSecond, memoryMb: kilobytes / 1024 };
}
