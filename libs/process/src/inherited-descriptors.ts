import { closeSync, readdirSync, readFileSync } from 'node:fs';

/** fcntl.h: O_CLOEXEC. Node sets it on all descriptors that it opens, and on the first ones that it inherited. */
const closeOnExec = 0o2000000;
const lastOfTerminal = 2;

/**
 * Closes the file descriptors that this process inherited, except input, output and errors. Otherwise Postgres and the processes that run
 * tenants' code inherit them too: Node protects only the first sixteen (ADR 23). Call it before anything else. Linux only.
 */
export function closeInheritedDescriptors(): void {
  for (const descriptor of openDescriptors())
    if (descriptor > lastOfTerminal && isForChildren(descriptor)) closeSync(descriptor);
}

function openDescriptors(): number[] {
  try {
    return readdirSync('/proc/self/fd').map(Number);
  } catch {
    return [];
  }
}

function isForChildren(descriptor: number): boolean {
  try {
    const flags = /^flags:\s+([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8'))?.[1];
    return flags !== undefined && (Number.parseInt(flags, 8) & closeOnExec) === 0;
  } catch {
    // The descriptor of the directory listing itself, which is closed by now.
    return false;
  }
}
