import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

interface Usage {
  /** User and system time of all processes, ended ones included. */
  readonly cpuSeconds: number;
  /** Proportional set size: memory that processes share is counted once. */
  readonly memoryMb: number;
}

/** Ticks of all CPUs since the start of the machine. */
interface MachineTimes {
  readonly idle: number;
  /** The time that the host gave to other machines while this one wanted to run. */
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

/** A process and all its descendants, also those that leave its group (Postgres). */
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
  // cpu user nice system idle iowait irq softirq steal. The later fields are part of user and nice.
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

/** The memory of the sandbox processes: the server's children that run Node. Linux only. */
export function sandboxMemoryMb(root: number): number {
  const children = family(root).filter((pid) => pid !== root && programOf(pid) === programOf(root));
  return children.reduce((sum, pid) => sum + memoryKilobytes(pid), 0) / 1024;
}

/** The resources that the server processes have used. Linux only. */
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

/** Nanoseconds of one thread on a processor, as the scheduler counts them. */
const ranNs = (task: string): number => Number(readOr(`${task}/schedstat`, '0').split(' ', 1)[0]);

const threadsOf = (pid: number): string[] => {
  try {
    return readdirSync(`/proc/${pid}/task`).map((thread) => `/proc/${pid}/task/${thread}`);
  } catch {
    return [];
  }
};

/** CPU seconds so far of the running processes. Linux only. */
export interface Shares {
  /** The first threads of the Node processes: the JavaScript of the vault. */
  readonly main: number;
  /** Their other threads: V8, the pool of libuv, workers. */
  readonly threads: number;
  readonly postgres: number;
}

/** Exact to the nanosecond, where `usageOf` counts ticks of 10 ms. Ended processes are not counted. */
export function sharesOf(root: number): Shares {
  const ns = { main: 0, threads: 0, postgres: 0 };
  const program = programOf(root);
  for (const pid of family(root)) {
    const isNode = programOf(pid) === program;
    for (const task of threadsOf(pid)) {
      const part = !isNode ? 'postgres' : task.endsWith(`/${pid}`) ? 'main' : 'threads';
      ns[part] += ranNs(task);
    }
  }
  return { main: ns.main / 1e9, threads: ns.threads / 1e9, postgres: ns.postgres / 1e9 };
}
