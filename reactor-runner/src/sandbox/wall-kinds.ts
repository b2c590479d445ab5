/**
 * What stands between a child and the host besides the isolate. Where the host does not allow one, the pool works
 * without it and says so once.
 */
export interface Walls {
  /** No core dump (it would hold card data), no file growth, few descriptors, bounded private memory. */
  readonly resourceLimits: boolean;
  /** A network namespace with nothing in it, and IPC and UTS namespaces of its own. */
  readonly noNetwork: boolean;
  /** PID and mount namespaces of its own, with a `/proc` that shows nothing but the child. */
  readonly ownProcesses: boolean;
  /** A file system of its own, read-only, with nothing in it but Node, its libraries and the addon. */
  readonly ownFiles: boolean;
  /** A seccomp filter: system calls that a child does not need do not exist for it. */
  readonly systemCallFilter: boolean;
  /**
   * No capabilities and no way to gain any, killed when its parent dies (without this wall it goes when its code next
   * returns); another account than the service's when that is root.
   */
  readonly unprivileged: boolean;
  /** A user id that nothing else on the host has; where the service is not root, a user namespace of its own. */
  readonly ownAccount: boolean;
  /** Node's permission model: no files but the isolated-vm binary, no processes, no workers, no inspector. */
  readonly permissionModel: boolean;
  /** The pool can read what a child uses (`/proc`), and ends it beyond its CPU time and resident memory. */
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
