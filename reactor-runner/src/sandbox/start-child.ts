import { spawn, type ChildProcess } from 'node:child_process';
import type { Socket } from 'node:net';
import { childEnvironment, type ChildCommand } from './child-command.ts';
import { filterDescriptor } from './own-files.ts';

export interface StartedChild {
  readonly process: ChildProcess;
  /** The socket that the child has as descriptor 3, its only connection. */
  readonly socket: Socket;
}

export function startChild({ file, args, filter }: ChildCommand): StartedChild {
  const child = spawn(file, args, {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe', ...(filter === undefined ? [] : (['pipe'] as const))],
    env: childEnvironment,
    cwd: '/',
  });
  if (filter !== undefined) {
    const pipe = child.stdio[filterDescriptor] as Socket;
    // It may end before it has read this, which its exit tells.
    pipe.on('error', () => undefined);
    pipe.end(filter, () => pipe.destroy());
  }
  return { process: child, socket: child.stdio[3] as Socket };
}
