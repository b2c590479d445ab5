export { DirectFeed, type DirectFeedOptions } from './consume/direct-feed.ts';
export { invocationFeedMigrations } from './consume/migrations.ts';
export type { InvocationFeed } from './consume/port.ts';
export { createEgressBroker, type EgressBroker } from './egress/index.ts';
export { createLazySandbox, type LazySandbox } from './runs/lazy-sandbox.ts';
export type { OpenTokens, RunOrigin, ServiceRequest, VaultOperations } from './runs/ports.ts';
export type { SandboxPoolOptions, SandboxReport } from './sandbox/index.ts';
export { startReactorRunner, type ReactorRunner, type ReactorRunnerOptions } from './start.ts';
