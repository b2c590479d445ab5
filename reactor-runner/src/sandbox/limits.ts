/** Bounds of one run and of the process that carries it. Sizes in bytes, times in milliseconds. */
export interface SandboxLimits {
  /** V8 heap and ArrayBuffers of the guest's isolate; short peaks of up to three times this happen. */
  readonly isolateMemoryMb: number;
  /** Resident memory at which a child is killed with the run in it. */
  readonly childRssMb: number;
  /** Resident memory at which an idle child is replaced. */
  readonly idleRssMb: number;
  /** Private memory the kernel grants a child (RLIMIT_DATA): the wall behind the two above. */
  readonly childDataMb: number;
  /** Address space of a child (RLIMIT_AS), five times what it was seen to use: bounds the tables of pages, which nothing else counts. */
  readonly childAddressMb: number;
  /** CPU time of the child during one run: guest code, its garbage collection and host cryptography together. */
  readonly cpuMs: number;
  /** CPU time of a child that no run is in: the next isolate takes some milliseconds. */
  readonly idleCpuMs: number;
  /** Of a child; it was seen to have 4, and libuv may start 4 more. */
  readonly threads: number;
  /** What a child may take beyond a run's time limit before it is killed from outside. */
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
  /** Of a request, all but its body. */
  readonly requestHeadChars: number;
  readonly requestBytes: number;
  /** Bodies of the requests of one run that are under way: the service holds them. */
  readonly requestBytesInFlight: number;
  /**
   * Runs after which a child is replaced: 1 KB leaks with each isolate. A start takes as much as thirty runs and is felt by those
   * beside it.
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
  requestBytes: 4_194_304,
  requestBytesInFlight: 16_777_216,
  runsPerChild: 10_000,
};
