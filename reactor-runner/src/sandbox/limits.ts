/** Limits of one run and of its process. Sizes in bytes, times in milliseconds. */
export interface SandboxLimits {
  /** V8 heap and ArrayBuffers of the guest's isolate; short peaks of up to three times this happen. */
  readonly isolateMemoryMb: number;
  /** Resident memory at which a child is killed with the run in it. */
  readonly childRssMb: number;
  /** Resident memory at which an idle child is replaced. */
  readonly idleRssMb: number;
  /** Private memory that the kernel grants a child (RLIMIT_DATA), in case the two limits above fail. */
  readonly childDataMb: number;
  /**
   * Address space of a child (RLIMIT_AS), five times the observed use. It bounds the page tables, which no other
   * limit counts.
   */
  readonly childAddressMb: number;
  /** CPU time of the child during one run: guest code, its garbage collection and host cryptography together. */
  readonly cpuMs: number;
  /** CPU time of a child without a run: making the next isolate takes some milliseconds. */
  readonly idleCpuMs: number;
  /** Threads of a child. It was observed to have 4, and libuv may start 4 more. */
  readonly threads: number;
  /** The time after a run's time limit at which its child is killed from outside. */
  readonly graceMs: number;
  readonly codeChars: number;
  readonly argsBytes: number;
  readonly resultBytes: number;
  readonly jsonDepth: number;
  readonly jsonNodes: number;
  readonly consoleLines: number;
  readonly consoleBytes: number;
  readonly timers: number;
  readonly hostCalls: number;
  readonly requestsInFlight: number;
  readonly requests: number;
  /** The head of a request: all fields except the body. */
  readonly requestHeadChars: number;
  /** The heads of all requests of a run, as JSON: the service parses them on its only thread. */
  readonly requestHeadsBytes: number;
  readonly requestBytes: number;
  /** The bodies of one run's requests in flight: the service holds them in memory. */
  readonly requestBytesInFlight: number;
  /**
   * Runs after which a child is replaced: each isolate leaks 1 KB. A start costs as much as thirty runs and slows the
   * runs beside it.
   */
  readonly runsPerChild: number;
}

export const defaultSandboxLimits: SandboxLimits = {
  isolateMemoryMb: 64,
  childRssMb: 320,
  idleRssMb: 110,
  childDataMb: 640,
  childAddressMb: 4_096,
  cpuMs: 10_000,
  idleCpuMs: 500,
  threads: 32,
  graceMs: 250,
  codeChars: 50_000,
  argsBytes: 1_048_576,
  resultBytes: 1_048_576,
  jsonDepth: 100,
  jsonNodes: 200_000,
  consoleLines: 200,
  consoleBytes: 65_536,
  timers: 1_000,
  hostCalls: 20_000,
  requestsInFlight: 32,
  requests: 200,
  requestHeadChars: 65_536,
  requestHeadsBytes: 1_572_864,
  requestBytes: 4_194_304,
  requestBytesInFlight: 16_777_216,
  runsPerChild: 10_000,
};
