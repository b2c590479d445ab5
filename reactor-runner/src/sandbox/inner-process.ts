import { readFileSync } from 'node:fs';

/**
 * The child of a process that `unshare --fork` made: the only process of its PID namespace, by its id outside.
 * Undefined before it exists, after its end, and where the kernel does not list children.
 */
export function processIn(waiting: number): number | undefined {
  try {
    const first = Number(readFileSync(`/proc/${waiting}/task/${waiting}/children`, 'latin1').split(' ')[0]);
    return first > 0 ? first : undefined;
  } catch {
    return undefined;
  }
}

/** SIGKILL is the ninth bit from the right. */
const endOrItsSignal = /^State:\s+[ZX]|^S(?:ig|hd)Pnd:\s+[0-9a-f]*[13579bdf][0-9a-f]{2}$/m;

/**
 * False when the process has ended or has a pending SIGKILL, also before its parent waited for it. True where there
 * is no /proc.
 */
export function isRunning(pid: number): boolean {
  try {
    return !endOrItsSignal.test(readFileSync(`/proc/${pid}/status`, 'latin1'));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code !== 'ENOENT' && code !== 'ESRCH';
  }
}
