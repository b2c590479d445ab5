export { createFeedCheckpoints } from './consume/checkpoints.ts';
export { deliveryOptions, toInvocation } from './consume/feed-options.ts';
export { invocationFeedMigrations } from './consume/migrations.ts';
export { runCode, type Code, type CodeDependencies } from './runs/run-code.ts';
export { WrittenExpressions } from './runs/written-expressions.ts';
export { SeenTokens } from './runs/seen-tokens.ts';
export { createLazySandbox, type LazySandbox } from './runs/lazy-sandbox.ts';
export type {
  Asked,
  OpenTokens,
  OutputWriter,
  RunOrigin,
  RunOutput,
  ServiceRequest,
  ShownToken,
  VaultOperations,
} from './runs/ports.ts';
export { defaultRunsPerTenant } from './sandbox/index.ts';
export { countPending, type PendingInvocations } from './pending.ts';
export type { AccountRange, SandboxPoolOptions, SandboxReport, Walls } from './sandbox/index.ts';
export { startReactorRunner, type ReactorRunner, type ReactorRunnerOptions } from './start.ts';
