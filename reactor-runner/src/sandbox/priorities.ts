import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';

/**
 * What children get of the processor, beside the service, Postgres and each other (ADR 12). Most of a child's work comes after
 * its outcome, when it makes the next isolate and nobody waits: that is done when nothing else is to do, unless the next run
 * has come already.
 */
export interface Priorities {
  /** Nobody waits for it yet, so it starts when nothing else is to do. */
  spare(pid: Pid): void;
  /** Somebody waits for it to start. */
  hurried(pid: Pid): void;
  ready(pid: Pid): void;
  /** Somebody waits for what it does. */
  awaited(pid: Pid): void;
  resting(pid: Pid): void;
  /** Its run takes longer than most do: they come first. */
  working(pid: Pid): void;
  /** Its run burns CPU, and gets what others leave: endless loops of one tenant hardly delay another's runs. */
  burning(pid: Pid): void;
  /** It has burned for long: it runs when a core is idle, and leaves it at once when anything else wakes. */
  endless(pid: Pid): void;
  /** The run that burned is over. False when the host does not let a priority be raised: then the child is of no more use. */
  recovered(pid: Pid): boolean;
  /** The same of one that was endless. */
  revived(pid: Pid): Promise<boolean>;
}

/** Undefined when it could not be started. */
type Pid = number | undefined;

/** What a child starts with, and all its threads have. */
export const levelsBelowService = 10;
const lowest = 19;
const below = (levels: number): number => Math.min(lowest, getPriority() + levels);
/** A run takes less than a millisecond; a child that is still making its isolate is in a hurry now. */
const awaited = below(3);
const ordinary = below(levelsBelowService);

/** @param chrt the tool that gives the policy SCHED_IDLE; without it endless code keeps the lowest priority */
export function createPriorities(chrt: string | undefined): Priorities {
  // One after the other: what is said last must hold.
  let lastPolicy: Promise<unknown> = Promise.resolve();
  const setPolicy = (pid: Pid, policy: Policy): Promise<boolean> => {
    const isSet = lastPolicy.then(() => chrt === undefined || runChrt(chrt, pid, policy));
    lastPolicy = isSet;
    return isSet;
  };
  // Where it may not (root's CAP_SYS_NICE, or RLIMIT_NICE), a child stays at the ordinary priority all its life.
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

/** False when it has ended, or the host does not allow it: the lowest priority has to do. */
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

/** Linux keeps priority by thread; the one with the number of the process runs the code. */
function set(thread: Pid, priority: number): boolean {
  // Zero or nothing would be this process.
  if (!thread) return false;
  try {
    setPriority(thread, priority);
    return true;
  } catch {
    // It has ended, or the host does not allow it: fairness then rests on the scheduler alone.
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
