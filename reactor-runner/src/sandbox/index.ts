export { inspectWalls } from './inspect-walls.ts';
export { createSandboxPool } from './pool.ts';
export { defaultRunsPerTenant } from './pool-types.ts';
export type {
  CompileRequest,
  SandboxPool,
  SandboxPoolOptions,
  SandboxReport,
  SandboxStats,
} from './pool-types.ts';
export type { HostCalls, RunRequest, Waiter } from './job.ts';
export { defaultSandboxLimits } from './limits.ts';
export type { SandboxLimits } from './limits.ts';
export { describeCompileProblem, emptyConsole, problemOf } from './outcome.ts';
export type {
  CompileOutcome,
  CompileProblem,
  GuestConsole,
  GuestFailure,
  GuestResult,
  RunOutcome,
  RunProblem,
} from './outcome.ts';
export type { AccountRange } from './child-accounts.ts';
export type { Walls } from './wall-kinds.ts';
