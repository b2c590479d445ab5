import { posix } from 'node:path';

/**
 * What a child finds of the host's file system: Node, the libraries that it was started with, and the addon. Read-only. No file
 * of configuration, no tool, and not the data directory.
 */
export function filesOfChild(addonPath: string): string[] {
  return [process.execPath, ...libraries(), addonPath];
}

/** Made once: a report takes some milliseconds. */
let found: readonly string[] | undefined;

/** The shared objects of this process, which is the same program. The kernel's own among them has no path. */
function libraries(): readonly string[] {
  found ??= readSharedObjects().filter((file) => posix.isAbsolute(file));
  return found;
}

function readSharedObjects(): string[] {
  // Otherwise a report looks up the names of open connections.
  const report = Object.assign(process.report, { excludeNetwork: true });
  return (report.getReport() as { sharedObjects?: string[] }).sharedObjects ?? [];
}

/** The descriptor on which bubblewrap gets the filter of system calls; that of the socket is 3. */
export const filterDescriptor = 4;

/**
 * Namespaces of every kind, a file system of nothing but `files`, no capabilities, and the filter. A process outside waits for the
 * child, which is the first of its PID namespace. Needs no privileges, but user namespaces. There is no `/proc`: it tells of the host
 * (command line of the kernel, load, disks), and one can write to it, such as the priority of the service's session.
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
