import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { createChildAccounts, defaultAccountRange } from '../src/sandbox/child-accounts.ts';
import { childCommand } from '../src/sandbox/child-command.ts';
import { defaultSandboxLimits } from '../src/sandbox/limits.ts';
import { startChild } from '../src/sandbox/start-child.ts';
import { noWalls, type Walls } from '../src/sandbox/wall-kinds.ts';
import { findWallTools } from '../src/sandbox/walls.ts';

const perl = '/usr/bin/perl';

/** Perl can make any system call by its number. */
export const canIntrude =
  process.platform === 'linux' && existsSync(perl) && ['x64', 'arm64'].includes(process.arch);

export const allWalls = Object.fromEntries(
  Object.keys(noWalls).map((name) => [name, true]),
) as never as Walls;

/** The messages (on descriptor 3) of a program that runs in the place of the child. */
export async function intrude(code: string, walls: Walls = allWalls): Promise<string> {
  const accounts = createChildAccounts(defaultAccountRange);
  const tools = await findWallTools();
  const command = childCommand({ program: '', addonPath: perl }, defaultSandboxLimits, {
    walls,
    tools,
    account: process.getuid?.() === 0 ? accounts.take() : undefined,
  });
  // The command line of Node follows.
  const start = walls.ownFiles ? command.args.indexOf('--') + 1 : command.args.indexOf(process.execPath);
  const before = command.args.slice(0, start);
  // Where a child has its own files, perl was bound in the place of the addon, and needs these libraries.
  const files = walls.ownFiles ? librariesOfPerl().flatMap((file) => ['--ro-bind', file, file]) : [];
  const device = walls.ownFiles ? ['--dev-bind', '/dev/null', '/dev/null'] : [];
  const at = Math.max(0, before.indexOf('--remount-ro'));
  const args = [...before.slice(0, at), ...files, ...device, ...before.slice(at), perl, '-e', code];
  const { process: child, socket } = startChild({ ...command, args });
  child.on('error', (error) => socket.destroy(error));
  return text(socket);
}

function librariesOfPerl(): string[] {
  const { stdout } = spawnSync('ldd', [perl], { encoding: 'utf8' });
  return [...stdout.matchAll(/(\/\S+) \(/g)].map((match) => match[1] ?? '');
}
