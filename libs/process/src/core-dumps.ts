import { writeFileSync } from 'node:fs';

/**
 * From now on a core dump of this process and of its children contains no memory, because memory holds keys and card data. Uses the filter
 * and not a size limit of 0: the kernel ignores that limit when it pipes dumps to a program (core(5)). No effect where there is no such
 * filter (not Linux) or it is read-only.
 */
export function leaveMemoryOutOfCoreDumps(): void {
  try {
    writeFileSync('/proc/self/coredump_filter', '0');
  } catch {
    // Then the host decides whether core dumps are made.
  }
}
