import type { SandboxLimits } from './limits.ts';
import { bubblewrap, filesOfChild } from './own-files.ts';
import { levelsBelowService } from './priorities.ts';
import { systemCallFilter } from './system-call-filter.ts';
import type { Walls } from './wall-kinds.ts';

export interface ChildCommand {
  readonly file: string;
  readonly args: readonly string[];
  /** The child is the only process of a PID namespace; what is started is a process outside that waits for it. */
  readonly isAlone: boolean;
  /** Of system calls; bubblewrap wants it on descriptor 4. */
  readonly filter: Buffer | undefined;
}

/** What a child runs, and the one file that it may read. */
export interface ChildProgram {
  readonly program: string;
  readonly addonPath: string;
}

/**
 * Its whole environment. io_uring is a wide way into the kernel: the variable keeps Node from it for files, only the filter of system
 * calls for events. The time zone would otherwise be the host's where the child sees its files, and UTC where it does not.
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

export const isRoot = (): boolean => process.getuid?.() === 0;

/**
 * The command line of a child behind the given walls. Tools are named by absolute path: the child's environment is empty.
 * @param account the child's own, as root
 */
export function childCommand(
  { program, addonPath }: ChildProgram,
  limits: SandboxLimits,
  { walls, tools, account }: { walls: Walls; tools: WallTools; account: number | undefined },
): ChildCommand {
  const permission = ['--permission', '--allow-addons', `--allow-fs-read=${addonPath}`];
  const bwrap = walls.ownFiles ? tools.bwrap : undefined;
  const isAlone = bwrap !== undefined || (walls.ownProcesses && tools.unshare !== undefined);
  const filter = bwrap !== undefined && walls.systemCallFilter ? systemCallFilter(process.arch) : undefined;
  const [file = process.execPath, ...args] = [
    // From its first moment: later another user's process may not be the service's to change (root without CAP_SYS_NICE).
    ...(tools.nice === undefined ? [] : [tools.nice, '-n', `${levelsBelowService}`]),
    ...resourceLimits(limits, walls, tools),
    // For the process that waits: the child has its own below, which a change of account would undo.
    ...(isAlone && tools.setpriv !== undefined ? [tools.setpriv, '--pdeathsig=KILL'] : []),
    ...(bwrap === undefined ? namespaces(walls, tools) : []),
    ...privileges(walls, tools, account),
    // Behind the change of account: it needs no privileges, and what is mounted in a child is not root's.
    ...(bwrap === undefined ? [] : bubblewrap(bwrap, filesOfChild(addonPath), filter !== undefined)),
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
    program,
    addonPath,
  ];
  return { file, args, isAlone, filter };
}

function resourceLimits(limits: SandboxLimits, walls: Walls, { prlimit }: WallTools): string[] {
  if (!walls.resourceLimits || prlimit === undefined) return [];
  return [
    prlimit,
    // One byte, not none: it is 1 that also keeps the kernel from piping a dump to a program (core(5)).
    '--core=1',
    '--fsize=0',
    '--nofile=64',
    `--data=${limits.childDataMb * 1_048_576}`,
    `--as=${limits.childAddressMb * 1_048_576}`,
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

/** Of all children where they have none of their own. Not `nobody`: Postgres may run as that. */
const sharedAccount = 65_533;

function privileges(walls: Walls, { setpriv }: WallTools, own: number | undefined): string[] {
  if (!walls.unprivileged || setpriv === undefined) return [];
  const account = (walls.ownAccount ? own : undefined) ?? sharedAccount;
  const identity = [`--reuid=${account}`, `--regid=${account}`, '--clear-groups', '--bounding-set=-all'];
  return [setpriv, ...(isRoot() ? identity : []), '--inh-caps=-all', '--no-new-privs', '--pdeathsig=KILL'];
}
