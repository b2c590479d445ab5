/**
 * The system calls that a child may make: those that Node, V8, isolated-vm and libc were observed to make (strace
 * over the suites of this folder), and their variants in other releases of libc. All others do not exist for it
 * (ENOSYS): no new processes, programs or namespaces, no sockets, mounts, tracing, io_uring, BPF, kernel keys, or
 * memory of other processes.
 */
export interface SystemCall {
  readonly name: string;
  /** The number of the call by architecture. arm64 lacks calls that have a newer equivalent. */
  readonly x64: number;
  readonly arm64?: number;
  /** The call is allowed only when one of these tests holds. */
  readonly onlyIf?: readonly ArgumentTest[];
}

/** A test of the lower 32 bits of an argument, which are the bits that the kernel uses in these calls. */
export interface ArgumentTest {
  readonly argument: number;
  readonly mask: number;
  readonly equals: number;
}

const anyOf = (argument: number, values: readonly number[]): readonly ArgumentTest[] =>
  values.map((equals) => ({ argument, mask: 0xffffffff, equals }));

const cloneThread = 0x10000;
/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. */
const cloneNamespaces = 0x7e020000;

/** PR_SET_NAME and PR_SET_VMA, which name threads and memory. */
const namings = [15, 0x53564d41];
/** TCGETS, FIONBIO, FIONREAD, FIONCLEX, FIOCLEX. */
const streamSettings = [0x5401, 0x5421, 0x541b, 0x5450, 0x5451];

/** MAP_TYPE and MAP_GROWSDOWN of mmap, and MAP_PRIVATE: RLIMIT_DATA does not count memory of other kinds. */
const kindOfMemory = 0x10f;
const privateMemory = 0x02;

type Row = readonly [name: string, x64: number, arm64?: number, onlyIf?: readonly ArgumentTest[]];

const memory: readonly Row[] = [
  ['brk', 12, 214],
  ['madvise', 28, 233],
  ['mmap', 9, 222, [{ argument: 3, mask: kindOfMemory, equals: privateMemory }]],
  ['mprotect', 10, 226],
  ['mremap', 25, 216],
  ['munmap', 11, 215],
];

/** The wall `ownFiles` decides which files exist. */
const files: readonly Row[] = [
  ['access', 21],
  ['close', 3, 57],
  ['faccessat', 269, 48],
  ['faccessat2', 439, 439],
  ['fcntl', 72, 25],
  ['fstat', 5, 80],
  ['getcwd', 79, 17],
  ['ioctl', 16, 29, anyOf(1, streamSettings)],
  ['lseek', 8, 62],
  ['lstat', 6],
  ['newfstatat', 262, 79],
  ['open', 2],
  ['openat', 257, 56],
  ['pread64', 17, 67],
  ['read', 0, 63],
  ['readlink', 89],
  ['readlinkat', 267, 78],
  ['readv', 19, 65],
  ['stat', 4],
  ['statx', 332, 291],
  ['write', 1, 64],
  ['writev', 20, 66],
];

/** The socket to the pool is inherited: a child reads and writes it, and cannot make another. */
const events: readonly Row[] = [
  ['epoll_create1', 291, 20],
  ['epoll_ctl', 233, 21],
  ['epoll_pwait', 281, 22],
  ['epoll_wait', 232],
  ['eventfd2', 290, 19],
  ['getsockname', 51, 204],
  ['getsockopt', 55, 209],
  ['pipe2', 293, 59],
  ['poll', 7],
  ['ppoll', 271, 73],
  ['shutdown', 48, 210],
];

/**
 * Signals to threads only, which the PID namespace limits. `kill` of 0 would reach the process group, which holds the
 * service and all children: without root they all belong to one user.
 */
const threads: readonly Row[] = [
  ['arch_prctl', 158],
  ['clone', 56, 220, [{ argument: 0, mask: cloneThread | cloneNamespaces, equals: cloneThread }]],
  // Needed once: bubblewrap sets the filter, then executes Node. The file system of a child holds no other program.
  ['execve', 59, 221],
  ['exit', 60, 93],
  ['exit_group', 231, 94],
  ['futex', 202, 98],
  ['membarrier', 324, 283],
  ['prctl', 157, 167, anyOf(0, namings)],
  ['restart_syscall', 219, 128],
  ['rseq', 334, 293],
  ['rt_sigaction', 13, 134],
  ['rt_sigprocmask', 14, 135],
  ['rt_sigreturn', 15, 139],
  ['sched_yield', 24, 124],
  ['set_robust_list', 273, 99],
  ['set_tid_address', 218, 96],
  ['sigaltstack', 131, 132],
  ['tgkill', 234, 131],
  ['tkill', 200, 130],
];

/** Calls that give information about the process itself, the time and the machine. */
const knowledge: readonly Row[] = [
  ['capget', 125, 90],
  ['clock_getres', 229, 114],
  ['clock_gettime', 228, 113],
  ['clock_nanosleep', 230, 115],
  ['getegid', 108, 177],
  ['geteuid', 107, 175],
  ['getgid', 104, 176],
  ['getpid', 39, 172],
  ['getrandom', 318, 278],
  ['getrlimit', 97, 163],
  ['getrusage', 98, 165],
  ['gettid', 186, 178],
  ['gettimeofday', 96, 169],
  ['getuid', 102, 174],
  ['nanosleep', 35, 101],
  ['prlimit64', 302, 261],
  ['sched_getaffinity', 204, 123],
  ['sched_getparam', 143, 121],
  ['sched_getscheduler', 145, 120],
  ['sysinfo', 99, 179],
  ['time', 201],
  ['uname', 63, 160],
];

export const systemCalls: readonly SystemCall[] = [memory, files, events, threads, knowledge]
  .flat()
  .map(([name, x64, arm64, onlyIf]) => ({
    name,
    x64,
    ...(arm64 === undefined ? {} : { arm64 }),
    ...(onlyIf === undefined ? {} : { onlyIf }),
  }));
