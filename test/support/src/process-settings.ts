import { readFileSync } from 'node:fs';
import { getPriority } from 'node:os';

/** The settings of a process of this machine. Linux only. */
export interface ProcessSettings {
  readonly coredumpFilter: string;
  readonly priority: number;
}

export const processSettingsOf = (pid: number): ProcessSettings => ({
  coredumpFilter: readFileSync(`/proc/${pid}/coredump_filter`, 'utf8').trim(),
  priority: getPriority(pid),
});
