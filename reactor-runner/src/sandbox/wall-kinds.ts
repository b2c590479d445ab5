/**
 * The protections between a child and the host besides the isolate. Where the host does not allow one, the pool works
 * without it and reports this once.
 */
export interface Walls {
  /** No core dump (it would hold card data), no file growth, few descriptors, bounded private memory. */
  readonly resourceLimits: boolean;
  /** A network namespace without interfaces, and its own IPC and UTS namespaces. */
  readonly noNetwork: boolean;
  /** Its own PID and mount namespaces, with a `/proc` that shows only the child. */
  readonly ownProcesses: boolean;
  /** Its own read-only file system, with only Node, its libraries and the addon. */
  readonly ownFiles: boolean;
  /** A seccomp filter: system calls that a child does not need do not exist for it. */
  readonly systemCallFilter: boolean;
  /**
   * No capabilities and no way to gain any, killed when its parent dies (without this wall it ends when its code next
   * returns). Not the service's account when the service is root.
   */
  readonly unprivileged: boolean;
  /**
   * A user id that no other process or account of the host has. Where the service is not root, a user namespace of
   * its own.
   */
  readonly ownAccount: boolean;
  /** Node's permission model: no files but the isolated-vm binary, no processes, no workers, no inspector. */
  readonly permissionModel: boolean;
  /** The pool can read the child's resource use (`/proc`), and ends it beyond its CPU time and resident memory. */
  readonly usageWatch: boolean;
}

export const noWalls: Walls = {
  resourceLimits: false,
  noNetwork: false,
  ownProcesses: false,
  ownFiles: false,
  systemCallFilter: false,
  unprivileged: false,
  ownAccount: false,
  permissionModel: false,
  usageWatch: false,
};
