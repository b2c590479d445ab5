import type { SandboxLimits } from './limits.ts';
import { bubblewrap, filesOfChild } from './own-files.ts';
import { levelsBelowService } from './priorities.ts';
import { systemCallFilter } from './system-call-filter.ts';
import type { Walls } from './wall-kinds.ts';

export interface ChildCommand {
  readonly file: string;
  readonly args: readonly string[];
  /** The child is the only process of a PID namespace. The process that is started stays outside and waits for it. */
  readonly isAlone: boolean;
  /** The filter of system calls. bubblewrap reads it from descriptor 4. */
  readonly filter: Buffer | undefined;
}

/** The program of a child, and the one file that it may read. */
export interface ChildProgram {
  readonly program: string;
  readonly addonPath: string;
}

/**
 * The whole environment of a child. io_uring offers a large attack surface of the kernel: the variable stops Node
 * from using it for files, and only the filter of system calls stops it for events. Without TZ, the time zone would
 * be the host's where the child sees the host's files, and UTC elsewhere.
 */
export const childEnvironment = { UV_USE_IO_URING: '0', TZ: 'UTC' };

export interface WallTools {
  readonly nice?: string;
  readonly chrt?: string;
  readonly prlimit?: string;
  readonly bwrap?: string;
  readonly unshare?: string;
  readonly setpriv?: string;
}

interface ChildPlace {
  readonly walls: Walls;
  readonly tools: WallTools;
  readonly account: number | undefined;
}

export const isRoot = (): boolean => process.getuid?.() === 0;

/**
 * The command line of a child behind the given walls. Tools have absolute paths, because the child's environment is
 * empty.
 * @param account the child's own, as root
 */
export function childCommand(
  { program, addonPath }: ChildProgram,
  limits: SandboxLimits,
  place: ChildPlace,
): ChildCommand {
  const { walls, tools, account } = place;
  const permission = ['--permission', '--allow-addons', `--allow-fs-read=${addonPath}`];
  const bwrap = walls.ownFiles ? tools.bwrap : undefined;
  const isAlone = bwrap !== undefined || (walls.ownProcesses && tools.unshare !== undefined);
  const filter = bwrap !== undefined && walls.systemCallFilter ? systemCallFilter(process.arch) : undefined;
  const [file = process.execPath, ...args] = [
    // Set at the start: later the service may not change the priority of another user's process (root without
    // CAP_SYS_NICE).
    ...(tools.nice === undefined ? [] : [tools.nice, '-n', `${levelsBelowService}`]),
    ...resourceLimits(limits, place),
    // For the waiting process. The child sets its own below, because a change of account would clear it.
    ...(isAlone && tools.setpriv !== undefined ? [tools.setpriv, '--pdeathsig=KILL'] : []),
    ...(bwrap === undefined ? namespaces(walls, tools) : []),
    ...privileges(walls, tools, account),
    // After the change of account: bubblewrap needs no privileges, and its mounts do not belong to root.
    ...(bwrap === undefined ? [] : bubblewrap(bwrap, filesOfChild(addonPath), filter !== undefined)),
    process.execPath,
    // isolated-vm needs it.
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
    program,
    addonPath,
  ];
  return { file, args, isAlone, filter };
}

/** The processes that start a child, which count besides its threads. */
const processesAround = 8;

function resourceLimits(limits: SandboxLimits, { walls, tools, account }: ChildPlace): string[] {
  const { prlimit } = tools;
  if (!walls.resourceLimits || prlimit === undefined) return [];
  // The kernel counts threads and processes by user id, so the limit is set only where the child has its own.
  const isCounted = walls.ownAccount && account !== undefined;
  return [
    prlimit,
    // One byte, not zero: only the value 1 also keeps the kernel from piping a dump to a program (core(5)).
    '--core=1',
    '--fsize=0',
    '--nofile=64',
    `--data=${limits.childDataMb * 1_048_576}`,
    `--as=${limits.childAddressMb * 1_048_576}`,
    ...(isCounted ? [`--nproc=${limits.threads + processesAround}`] : []),
  ];
}

function namespaces(walls: Walls, { unshare }: WallTools): string[] {
  if (unshare === undefined) return [];
  const flags = [
    ...(walls.noNetwork ? ['--net', '--ipc', '--uts'] : []),
    ...(walls.ownProcesses ? ['--pid', '--fork', '--kill-child', '--mount-proc'] : []),
  ];
  const needsUser = !isRoot() && (flags.length > 0 || walls.ownAccount);
  if (needsUser) flags.push('--user', '--map-current-user');
  return flags.length === 0 ? [] : [unshare, ...flags];
}

/** The shared account of children without an account of their own. Not `nobody`: Postgres may run as that. */
const sharedAccount = 65_533;

function privileges(walls: Walls, { setpriv }: WallTools, own: number | undefined): string[] {
  if (!walls.unprivileged || setpriv === undefined) return [];
  const account = (walls.ownAccount ? own : undefined) ?? sharedAccount;
  const identity = [`--reuid=${account}`, `--regid=${account}`, '--clear-groups', '--bounding-set=-all'];
  return [setpriv, ...(isRoot() ? identity : []), '--inh-caps=-all', '--no-new-privs', '--pdeathsig=KILL'];
}
