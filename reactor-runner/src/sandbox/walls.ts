import { spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { access, constants } from 'node:fs/promises';
import type { SandboxBundle } from './bundle.ts';
import type { SandboxLimits } from './limits.ts';
import { levelsBelowService } from './priorities.ts';
import { processUsage } from './usage-watch.ts';

/**
 * What stands between a child and the host besides the isolate. Where the host does not allow one, the pool works
 * without it and says so once.
 */
export interface Walls {
  /** No core dump (it would hold card data), no file growth, few descriptors, bounded private memory. */
  readonly resourceLimits: boolean;
  /** A network namespace with nothing in it, and IPC and UTS namespaces of its own. */
  readonly noNetwork: boolean;
  /**
   * No capabilities and no way to gain any, killed when its parent dies (without this wall it goes when its code next
   * returns); `nobody` when the service itself runs as root.
   */
  readonly unprivileged: boolean;
  /** Node's permission model: no files but the isolated-vm binary, no processes, no workers, no inspector. */
  readonly permissionModel: boolean;
  /** The pool can read what a child uses (`/proc`), and ends it beyond its CPU time and resident memory. */
  readonly usageWatch: boolean;
}

export interface ChildCommand {
  readonly file: string;
  readonly args: readonly string[];
}

const directories = ['/usr/bin', '/bin', '/usr/sbin', '/sbin', '/usr/local/bin'];

export const allWalls: Walls = {
  resourceLimits: true,
  noNetwork: true,
  unprivileged: true,
  permissionModel: true,
  usageWatch: true,
};

/** The command line of a child behind the given walls. Tools are named by absolute path: the child's environment is empty. */
export function childCommand(
  bundle: SandboxBundle,
  limits: SandboxLimits,
  walls: Walls,
  tools: WallTools,
): ChildCommand {
  // From its first moment: later another user's process may not be the service's to change (root without CAP_SYS_NICE).
  const wrappers = tools.nice === undefined ? [] : [tools.nice, '-n', `${levelsBelowService}`];
  if (walls.resourceLimits && tools.prlimit !== undefined) {
    wrappers.push(
      tools.prlimit,
      // One byte, not none: it is 1 that also keeps the kernel from piping a dump to a program (core(5)).
      '--core=1',
      '--fsize=0',
      '--nofile=64',
      `--data=${limits.childDataMb * 1_048_576}`,
    );
  }
  if (walls.noNetwork && tools.unshare !== undefined) wrappers.push(tools.unshare, ...namespaceFlags());
  if (walls.unprivileged && tools.setpriv !== undefined) wrappers.push(tools.setpriv, ...privilegeFlags());
  const permission = ['--permission', '--allow-addons', `--allow-fs-read=${bundle.addonPath}`];
  const [file, ...args] = [
    ...wrappers,
    process.execPath,
    '--no-node-snapshot',
    '--jitless',
    '--disallow-code-generation-from-strings',
    '--max-old-space-size=128',
    '--max-semi-space-size=1',
    '--v8-pool-size=1',
    '--disable-sigusr1',
    '--no-warnings',
    ...(walls.permissionModel ? permission : []),
    '-e',
    bundle.program,
    bundle.addonPath,
  ];
  return { file: file ?? process.execPath, args };
}

function namespaceFlags(): string[] {
  const isRoot = process.getuid?.() === 0;
  return ['--net', '--ipc', '--uts', ...(isRoot ? [] : ['--user', '--map-current-user'])];
}

function privilegeFlags(): string[] {
  const nobody = ['--reuid=65534', '--regid=65534', '--clear-groups', '--bounding-set=-all'];
  return [
    ...(process.getuid?.() === 0 ? nobody : []),
    '--inh-caps=-all',
    '--no-new-privs',
    '--pdeathsig=KILL',
  ];
}

export interface WallTools {
  readonly nice?: string;
  readonly chrt?: string;
  readonly prlimit?: string;
  readonly unshare?: string;
  readonly setpriv?: string;
}

export async function findWallTools(): Promise<WallTools> {
  const names = ['nice', 'chrt', 'prlimit', 'unshare', 'setpriv'] as const;
  const found = await Promise.all(names.map(async (name) => [name, await findExecutable(name)] as const));
  return Object.fromEntries(found.filter(([, path]) => path !== undefined));
}

async function findExecutable(name: string): Promise<string | undefined> {
  for (const directory of directories) {
    const path = `${directory}/${name}`;
    if (
      await access(path, constants.X_OK).then(
        () => true,
        () => false,
      )
    )
      return path;
  }
  return undefined;
}

/** Starts a child behind all walls; when that fails, behind each alone, and keeps those that work. */
export async function probeWalls(
  bundle: SandboxBundle,
  limits: SandboxLimits,
  tools: WallTools,
): Promise<Walls> {
  const works = (walls: Walls) => startsUp(childCommand(bundle, limits, walls, tools));
  const possible: Walls = {
    resourceLimits: tools.prlimit !== undefined,
    noNetwork: tools.unshare !== undefined,
    unprivileged: tools.setpriv !== undefined,
    permissionModel: true,
    usageWatch: processUsage(process.pid) !== undefined,
  };
  if (await works(possible)) return possible;
  let standing: Walls = {
    resourceLimits: false,
    noNetwork: false,
    unprivileged: false,
    permissionModel: false,
    usageWatch: false,
  };
  for (const name of Object.keys(possible) as (keyof Walls)[]) {
    const more = { ...standing, [name]: true };
    if (possible[name] && (await works(more))) standing = more;
  }
  return standing;
}

const probeTimeoutMs = 10_000;

function startsUp(command: ChildCommand): Promise<boolean> {
  return new Promise((resolve) => {
    const child = spawn(command.file, command.args, {
      stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
      env: {},
      cwd: '/',
    });
    const finish = (works: boolean): void => {
      clearTimeout(timer);
      child.kill('SIGKILL');
      resolve(works);
    };
    const timer = setTimeout(() => finish(false), probeTimeoutMs);
    child.on('error', () => finish(false));
    child.on('exit', () => finish(false));
    const socket = child.stdio[3] as Socket;
    socket.on('error', () => finish(false));
    socket.once('data', () => finish(true));
    socket.write(
      `${JSON.stringify({ type: 'init', bundle: { core: bundleProbeCore, modules: {} }, limits: { isolateMemoryMb: 16 } })}\n`,
    );
  });
}

/** The least a child can prepare an isolate with. */
const bundleProbeCore = 'globalThis.__dispatch = () => undefined;';
