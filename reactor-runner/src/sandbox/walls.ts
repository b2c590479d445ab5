import { access, constants } from 'node:fs/promises';
import type { ChildAccounts } from './child-accounts.ts';
import { childCommand, isRoot } from './child-command.ts';
import type { ChildCommand, ChildProgram, WallTools } from './child-command.ts';
import { processIn } from './inner-process.ts';
import type { SandboxLimits } from './limits.ts';
import { startChild } from './start-child.ts';
import { systemCallFilter } from './system-call-filter.ts';
import { processUsage } from './usage-watch.ts';
import { noWalls, type Walls } from './wall-kinds.ts';

const directories = ['/usr/bin', '/bin', '/usr/sbin', '/sbin', '/usr/local/bin'];

export async function findWallTools(): Promise<WallTools> {
  const names = ['nice', 'chrt', 'prlimit', 'bwrap', 'unshare', 'setpriv'] as const;
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

export interface ProbeOptions {
  readonly tools: WallTools;
  readonly accounts: ChildAccounts;
  /** Ends the process of a probe, and the probes. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Starts a child behind all walls. When that fails, adds one wall at a time and keeps those that work. Its processes have the lowest priority,
 * so it may take long on a busy machine. @throws the reason of `signal`
 */
export async function probeWalls(
  program: ChildProgram,
  limits: SandboxLimits,
  { tools, accounts, signal }: ProbeOptions,
): Promise<Walls> {
  const works = async (walls: Walls): Promise<boolean> => {
    signal?.throwIfAborted();
    const account = accounts.take();
    if (account === undefined && isRoot() && walls.ownAccount) return false;
    const isUp = await startsUp(childCommand(program, limits, { walls, tools, account }), signal);
    if (account !== undefined) accounts.release(account);
    signal?.throwIfAborted();
    return isUp;
  };
  const steps = stepsOf(tools);
  const none: Walls = { ...noWalls, usageWatch: processUsage(process.pid) !== undefined };
  const all = steps.reduce<Walls>((walls, step) => ({ ...walls, ...step }), none);
  if (await works(all)) return all;
  let standing = none;
  for (const step of steps) {
    const more = { ...standing, ...step };
    const isNew = Object.keys(step).some((name) => !standing[name as keyof Walls]);
    if (isNew && hasItsGround(more) && (await works(more))) standing = more;
  }
  return standing;
}

/**
 * The walls that the tools can build, in the order of their dependencies. `unshare` is tried for a wall that
 * bubblewrap does not give.
 */
function stepsOf({ prlimit, setpriv, bwrap, unshare }: WallTools): Partial<Walls>[] {
  const ownAccount = { ownAccount: true };
  const namespaces = { noNetwork: true, ownProcesses: true };
  const hasFilter = systemCallFilter(process.arch) !== undefined;
  const own = (steps: Partial<Walls>[], isPossible: boolean): Partial<Walls>[] => (isPossible ? steps : []);
  return [
    ...own([{ resourceLimits: true }], prlimit !== undefined),
    ...own([{ unprivileged: true }], setpriv !== undefined),
    ...own([ownAccount], setpriv !== undefined && isRoot()),
    ...own([{ ...namespaces, ...(isRoot() ? {} : ownAccount), ownFiles: true }], bwrap !== undefined),
    ...own([{ systemCallFilter: true }], bwrap !== undefined && hasFilter),
    ...own([{ noNetwork: true }, { ownProcesses: true }], unshare !== undefined),
    ...own([ownAccount], unshare !== undefined && !isRoot()),
    { permissionModel: true },
  ];
}

/** As root the own account comes with the loss of privileges. bubblewrap gives the filter and the files. */
function hasItsGround({ ownAccount, unprivileged, systemCallFilter, ownFiles }: Walls): boolean {
  return (unprivileged || !ownAccount || !isRoot()) && (ownFiles || !systemCallFilter);
}

const probeTimeoutMs = 10_000;

function startsUp(command: ChildCommand, signal: AbortSignal | undefined): Promise<boolean> {
  return new Promise((resolve) => {
    const { process: child, socket } = startChild(command);
    let isUp = false;
    const kill = () => void child.kill('SIGKILL');
    const timer = setTimeout(kill, probeTimeoutMs);
    // A killed process runs no more code. With the lowest priority it may take long to end on a busy machine.
    const abort = () => {
      kill();
      resolve(false);
    };
    signal?.addEventListener('abort', abort);
    child.on('error', () => undefined);
    // The child ends when its socket closes, so no process of a probe is left.
    child.on('close', () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
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

/** The smallest runtime with which a child can prepare an isolate. */
const bundleProbeCore = 'globalThis.__dispatch = () => undefined;';
