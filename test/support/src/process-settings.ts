import { readdirSync, readFileSync } from 'node:fs';
import { getPriority } from 'node:os';

/** The settings of a process of this machine. Linux only. */
export interface ProcessSettings {
  readonly coredumpFilter: string;
  readonly priority: number;
  /** The priorities of the threads on which V8 collects garbage and compiles. */
  readonly backgroundPriorities: readonly number[];
}

const read = (file: string): string => readFileSync(file, 'utf8').trim();

export function processSettingsOf(pid: number): ProcessSettings {
  const threads = readdirSync(`/proc/${pid}/task`);
  return {
    coredumpFilter: read(`/proc/${pid}/coredump_filter`),
    priority: getPriority(pid),
    backgroundPriorities: threads
      .filter((thread) => read(`/proc/${pid}/task/${thread}/comm`) === 'V8Worker')
      .map((thread) => getPriority(Number(thread))),
  };
}
