import { readdirSync, readFileSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';

const levelsBelow = 10;

/**
 * V8 marks and compiles on threads of its own: as many as there are, up to four. From now on they do it when nobody who is
 * waited for wants the processor (ADR 14). Linux only, where threads have priorities; lowering one needs no privilege.
 */
export function lowerBackgroundThreads(): void {
  const lowered = Math.min(19, getPriority() + levelsBelow);
  try {
    for (const thread of readdirSync('/proc/self/task')) {
      const name = readFileSync(`/proc/self/task/${thread}/comm`, 'utf8').trim();
      if (name === 'V8Worker') setPriority(Number(thread), lowered);
    }
  } catch {
    // They are then as before.
  }
}
