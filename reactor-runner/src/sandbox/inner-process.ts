import { readFileSync } from 'node:fs';

/**
 * The child of a process that `unshare --fork` made: the one that is alone in its PID namespace, by its number out here.
 * Undefined before it is there, when it is gone, and where the kernel does not list children.
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

/** False of one that has ended or is bound to, though nobody has waited for it yet. True where there is no /proc to ask. */
export function isRunning(pid: number): boolean {
  try {
    return !endOrItsSignal.test(readFileSync(`/proc/${pid}/status`, 'latin1'));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code !== 'ENOENT' && code !== 'ESRCH';
  }
}
