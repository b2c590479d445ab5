import { spawn } from 'node:child_process';
import { access, constants } from 'node:fs/promises';
import type { Socket } from 'node:net';
import type { ChildAccounts } from './child-accounts.ts';
import { childCommand, childEnvironment } from './child-command.ts';
import type { ChildCommand, ChildProgram, WallTools } from './child-command.ts';
import { processIn } from './inner-process.ts';
import type { SandboxLimits } from './limits.ts';
import { processUsage } from './usage-watch.ts';
import { noWalls, type Walls } from './wall-kinds.ts';

const directories = ['/usr/bin', '/bin', '/usr/sbin', '/sbin', '/usr/local/bin'];

export async function findWallTools(): Promise<WallTools> {
  const names = ['nice', 'chrt', 'prlimit', 'unshare', 'setpriv'] as const;
  const found = await Promise.all(names.map(async (name) => [name, await findExecutable(name)] as const));
  return Object.fromEntries(found.filter(([, path]) => path !== undefined));
}

async function findExecutable(name: string): Promise<string | undefined> {
  for (const directory of directories) {
    const path = `${directory}/${name}`;
    const isThere = access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (await isThere) return path;
  }
  return undefined;
}

/** Starts a child behind all walls; when that fails, behind each alone, and keeps those that work. */
export async function probeWalls(
  program: ChildProgram,
  limits: SandboxLimits,
  tools: WallTools,
  accounts: ChildAccounts,
): Promise<Walls> {
  const isRoot = process.getuid?.() === 0;
  const works = async (walls: Walls): Promise<boolean> => {
    const account = accounts.take();
    if (account === undefined && isRoot && walls.ownAccount) return false;
    const isUp = await startsUp(childCommand(program, limits, { walls, tools, account }));
    if (account !== undefined) accounts.release(account);
    return isUp;
  };
  const possible: Walls = {
    resourceLimits: tools.prlimit !== undefined,
    noNetwork: tools.unshare !== undefined,
    ownProcesses: tools.unshare !== undefined,
    unprivileged: tools.setpriv !== undefined,
    ownAccount: (isRoot ? tools.setpriv : tools.unshare) !== undefined,
    permissionModel: true,
    usageWatch: processUsage(process.pid) !== undefined,
  };
  if (await works(possible)) return possible;
  let standing = noWalls;
  for (const name of Object.keys(possible) as (keyof Walls)[]) {
    const more = { ...standing, [name]: true };
    // As root an account of its own comes with the loss of privileges.
    const canStand = name !== 'ownAccount' || !isRoot || standing.unprivileged;
    if (possible[name] && canStand && (await works(more))) standing = more;
  }
  return standing;
}

const probeTimeoutMs = 10_000;

function startsUp(command: ChildCommand): Promise<boolean> {
  return new Promise((resolve) => {
    const child = spawn(command.file, command.args, {
      stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
      env: childEnvironment,
      cwd: '/',
    });
    const socket = child.stdio[3] as Socket;
    let isUp = false;
    const timer = setTimeout(() => child.kill('SIGKILL'), probeTimeoutMs);
    child.on('error', () => undefined);
    // It ends when its socket does, so nothing of a probe is left when it is over.
    child.on('close', () => {
      clearTimeout(timer);
      resolve(isUp);
    });
    socket.on('error', () => undefined);
    socket.once('data', () => {
      isUp = !command.isAlone || (child.pid !== undefined && processIn(child.pid) !== undefined);
      child.kill('SIGKILL');
    });
    socket.write(
      `${JSON.stringify({ type: 'init', bundle: { core: bundleProbeCore, modules: {} }, limits: { isolateMemoryMb: 16 } })}\n`,
    );
  });
}

/** The least a child can prepare an isolate with. */
const bundleProbeCore = 'globalThis.__dispatch = () => undefined;';
