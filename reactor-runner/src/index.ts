export { createFeedCheckpoints } from './consume/checkpoints.ts';
export { deliveryOptions, toInvocation } from './consume/feed-options.ts';
export { invocationFeedMigrations } from './consume/migrations.ts';
export { createEgressBroker, type EgressBroker } from './egress/index.ts';
export { createLazySandbox, type LazySandbox } from './runs/lazy-sandbox.ts';
export type { OpenTokens, RunOrigin, ServiceRequest, VaultOperations } from './runs/ports.ts';
export { countPending, type PendingInvocations } from './pending.ts';
export type { AccountRange, SandboxPoolOptions, SandboxReport, Walls } from './sandbox/index.ts';
export { startReactorRunner, type ReactorRunner, type ReactorRunnerOptions } from './start.ts';
