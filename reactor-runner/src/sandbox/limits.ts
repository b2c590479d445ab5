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
  /** CPU time of the child during one run: guest code, its garbage collection and host cryptography together. */
  readonly cpuMs: number;
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
  cpuMs: 10_000,
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
