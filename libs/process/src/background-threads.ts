import { readdirSync, readFileSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';

const levelsBelow = 10;

/**
 * V8 marks and compiles on up to four threads of its own. From now on they run only when no thread that serves requests needs the processor
 * (ADR 14). Linux only, where threads have priorities; lowering a priority needs no privilege.
 */
export function lowerBackgroundThreads(): void {
  const lowered = Math.min(19, getPriority() + levelsBelow);
  try {
    for (const thread of readdirSync('/proc/self/task')) {
      const name = readFileSync(`/proc/self/task/${thread}/comm`, 'utf8').trim();
      if (name === 'V8Worker') setPriority(Number(thread), lowered);
    }
  } catch {
    // The threads keep their priority.
  }
}
