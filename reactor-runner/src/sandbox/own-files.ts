import { posix } from 'node:path';

/**
 * The part of the host's file system that a child sees: Node, its libraries, and the addon. Read-only. It holds no
 * configuration file, no tool, and not the data directory.
 */
export function filesOfChild(addonPath: string): string[] {
  return [process.execPath, ...libraries(), addonPath];
}

/** Computed once: a report takes some milliseconds. */
let found: readonly string[] | undefined;

/** The shared objects of this process, which runs the same program. The one of the kernel has no path. */
function libraries(): readonly string[] {
  found ??= readSharedObjects().filter((file) => posix.isAbsolute(file));
  return found;
}

function readSharedObjects(): string[] {
  // Without this a report looks up the names of open connections.
  const report = Object.assign(process.report, { excludeNetwork: true });
  return (report.getReport() as { sharedObjects?: string[] }).sharedObjects ?? [];
}

/** The descriptor on which bubblewrap gets the filter of system calls. Descriptor 3 is the socket. */
export const filterDescriptor = 4;

/**
 * Namespaces of every kind, a file system with only `files`, no capabilities, and the filter. A process outside waits
 * for the child, which is the first of its PID namespace. Needs no privileges except user namespaces. There is no
 * `/proc`: it shows data of the host (kernel command line, load, disks), and a child could write to it, for example
 * the priority of the service's session.
 */
export function bubblewrap(tool: string, files: readonly string[], hasFilter: boolean): string[] {
  return [
    tool,
    ...['--unshare-user', '--unshare-pid', '--unshare-net', '--unshare-ipc', '--unshare-uts'],
    ...['--unshare-cgroup-try', '--as-pid-1', '--die-with-parent'],
    ...[...new Set(files)].flatMap((file) => ['--ro-bind', file, file]),
    ...['--remount-ro', '/', '--chdir', '/'],
    ...(hasFilter ? ['--seccomp', `${filterDescriptor}`] : []),
    '--',
  ];
}
