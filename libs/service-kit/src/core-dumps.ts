import { writeFileSync } from 'node:fs';

/**
 * From now on a core dump of this process, and of those it starts, holds no memory: there would be keys and card data in it.
 * By the filter and not by a size limit of 0, which the kernel ignores when it pipes dumps to a program (core(5)).
 * Without effect where there is no such filter (not Linux) or it is read-only.
 */
export function leaveMemoryOutOfCoreDumps(): void {
  try {
    writeFileSync('/proc/self/coredump_filter', '0');
  } catch {
    // Whether dumps are made at all is then for the host to decide.
  }
}
