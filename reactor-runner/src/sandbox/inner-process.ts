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

/** False of one that has ended, though nobody has waited for it yet. True where there is no /proc to ask. */
export function isRunning(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return !'ZX'.includes(stat.charAt(stat.lastIndexOf(')') + 2));
  } catch (error) {
    return (
      (error as NodeJS.ErrnoException).code !== 'ENOENT' && (error as NodeJS.ErrnoException).code !== 'ESRCH'
    );
  }
}
