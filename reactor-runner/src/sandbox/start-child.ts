import { spawn, type ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { childEnvironment, type ChildCommand } from './child-command.ts';
import { filterDescriptor } from './own-files.ts';

export interface StartedChild {
  readonly process: ChildProcess;
  /** The socket that the child has as descriptor 3. It is its only connection. */
  readonly socket: Socket;
}

export function startChild({ file, args, filter }: ChildCommand): StartedChild {
  const child = spawn(file, args, {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe', ...(filter === undefined ? [] : (['pipe'] as const))],
    env: childEnvironment,
    cwd: '/',
    // Gives the child its own session, so that it has no terminal to type into. Only when there is a terminal: Linux
    // shares the CPU fairly between sessions (sched_autogroup), so in its own session a child would no longer have a
    // lower priority than the service.
    detached: hasTerminal(),
  });
  if (filter !== undefined) {
    const pipe = child.stdio[filterDescriptor] as Socket;
    // The child may end before it has read the filter. Its exit reports that.
    pipe.on('error', () => undefined);
    pipe.end(filter, () => pipe.destroy());
  }
  return { process: child, socket: child.stdio[3] as Socket };
}

/** Whether this process has a controlling terminal: field 7 of proc_pid_stat(5), counted from after the name in parentheses. */
function hasTerminal(): boolean {
  try {
    const stat = readFileSync('/proc/self/stat', 'latin1');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[4] !== '0';
  } catch {
    return false;
  }
}
