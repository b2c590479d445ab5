import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';

/**
 * The CPU priority of children, compared with the service, Postgres and each other (ADR 12). Most of a child's work
 * comes after its outcome: it makes the next isolate. No caller waits for that, so it has the lowest priority, unless
 * the next run has arrived.
 */
export interface Priorities {
  /** No job waits for this child, so it starts when the CPU is idle. */
  spare(pid: Pid): void;
  /** A job waits for this child to start. */
  hurried(pid: Pid): void;
  ready(pid: Pid): void;
  /** A caller waits for the work of this child. */
  awaited(pid: Pid): void;
  resting(pid: Pid): void;
  /** Its run takes longer than most runs. Short runs come first. */
  working(pid: Pid): void;
  /**
   * Its run burns CPU and gets the CPU time that others leave: endless loops of one tenant hardly delay another's
   * runs.
   */
  burning(pid: Pid): void;
  /**
   * It has burned CPU for long. It runs only when a core is idle, and leaves the core at once when another process
   * wakes.
   */
  endless(pid: Pid): void;
  /**
   * The run that burned CPU is over. False when the host does not allow to raise the priority: then the child cannot
   * be used again.
   */
  recovered(pid: Pid): boolean;
  /** As `recovered`, for a child that was `endless`. */
  revived(pid: Pid): Promise<boolean>;
}

/** Undefined when the process could not be started. */
type Pid = number | undefined;

/** The priority at which a child and all its threads start. */
export const levelsBelowService = 10;
const lowest = 19;
const below = (levels: number): number => Math.min(lowest, getPriority() + levels);
/** A run takes less than a millisecond. A child that is still making its isolate must finish that first. */
const awaited = below(3);
const ordinary = below(levelsBelowService);

/** @param chrt the tool that sets the policy SCHED_IDLE. Without it endless code keeps the lowest priority */
export function createPriorities(chrt: string | undefined): Priorities {
  // One after the other, so that the last call decides.
  let lastPolicy: Promise<unknown> = Promise.resolve();
  const setPolicy = (pid: Pid, policy: Policy): Promise<boolean> => {
    const isSet = lastPolicy.then(() => chrt === undefined || runChrt(chrt, pid, policy));
    lastPolicy = isSet;
    return isSet;
  };
  // Without the right to raise (root's CAP_SYS_NICE, or RLIMIT_NICE), a child keeps the ordinary priority for its
  // whole life.
  let mayRaise = false;
  const resting = (pid: Pid): void => void (mayRaise && set(pid, lowest));

  return {
    spare: resting,
    hurried: (pid) => void (mayRaise && set(pid, ordinary)),
    ready(pid) {
      mayRaise ||= set(pid, ordinary) && set(pid, awaited);
      resting(pid);
    },
    awaited: (pid) => void (mayRaise && set(pid, awaited)),
    resting,
    working: (pid) => void set(pid, ordinary),
    burning: (pid) => void setAll(pid, lowest),
    endless: (pid) => void setPolicy(pid, '--idle'),
    recovered: (pid) => setAll(pid, ordinary),
    revived: async (pid) => setAll(pid, ordinary) && (await setPolicy(pid, '--other')),
  };
}

type Policy = '--idle' | '--other';

/** False when the process has ended, or when the host does not allow it: the lowest priority must be enough. */
function runChrt(chrt: string, pid: Pid, policy: Policy): Promise<boolean> {
  return new Promise((resolve) => {
    const options = { env: {}, cwd: '/' };
    if (!pid) resolve(false);
    else
      execFile(chrt, ['--all-tasks', policy, '--pid', '0', `${pid}`], options, (error) =>
        resolve(error === null),
      );
  });
}

/** Linux keeps the priority by thread. The thread with the number of the process runs the code. */
function set(thread: Pid, priority: number): boolean {
  // 0 would mean this process.
  if (!thread) return false;
  try {
    setPriority(thread, priority);
    return true;
  } catch {
    // The process has ended, or the host does not allow it. Then only the scheduler provides fairness.
    return false;
  }
}

function setAll(pid: Pid, priority: number): boolean {
  return threadsOf(pid)
    .map((thread) => set(thread, priority))
    .every(Boolean);
}

function threadsOf(pid: Pid): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).map(Number);
  } catch {
    return [];
  }
}
