export {
  createAuditTrail,
  createRequestContext,
  parseInput,
  recordRetiredKey,
  systemClock,
  type Answer,
  type AnswerOwner,
  type AnswerToken,
  type ApplicationReplay,
  type AuditTrail,
  type Clock,
  type Handler,
  type Handlers,
  type HandlersOf,
  type IdempotentAnswers,
  type IdempotentRequest,
  type Input,
  type RequestContext,
  type Path,
  type Repeating,
  type RequestContextOptions,
  type Revocations,
  type StoredToken,
  type TokenFacts,
  type TokenReplay,
} from '@token-vault/operations';
export { listenForAccessChanges, type AccessChanges } from './access-changes.ts';
export * from './callers/index.ts';
export { createAuthenticator, type Authentication, type Authenticator } from './authentication.ts';
export { refuse } from './http/answer.ts';
export { createEntityFinder } from './found-entities.ts';
export { bodyLimitBytes, collectBody } from './http/body.ts';
export { createApp, finishApp, type AppDependencies } from './http/app.ts';
export { mountHealth, type HealthCheck } from './http/health.ts';
export { problemDetails, toProblem, type Problem } from './http/problem.ts';
export {
  createRateLimits,
  defaultFailuresPerMinute,
  defaultRequestsPerMinute,
  RateLimitedError,
  type RateLimitOptions,
  type RateLimits,
} from './http/rate-limits.ts';
export { createMissLimit, type CountedTries, type MissLimit } from './miss-limit.ts';
export { mountReference } from './http/reference.ts';
export { freePorts } from './http/free-ports.ts';
export { listen, type RunningServer } from './http/server.ts';
export {
  createIdempotentAnswers,
  type IdempotentAnswersOptions,
  type SweptIdempotentAnswers,
} from './idempotency/idempotent-answers.ts';
export { idempotencyMigrations } from './idempotency/migrations.ts';
export { answerEntityOfToken } from './idempotency/sealed-answer.ts';
export { createLogger, errorFields, silentLogger, type Logger, type LogFields } from './logger.ts';
export {
  createMetrics,
  measureAppends,
  mountMetrics,
  observeAlterations,
  observeFlushes,
  observeRequests,
  observeTenantKeys,
  type Metrics,
  type AnsweredRequest,
  type RequestObserver,
} from './metrics/index.ts';
export { lowerBackgroundThreads } from './background-threads.ts';
export { leaveMemoryOutOfCoreDumps } from './core-dumps.ts';
export { runProcess, type ProcessLife, type RunningParts } from './process-life.ts';
export { readCheckpoints } from './checkpoints.ts';
export {
  createProjectionProgress,
  type ProjectionProgress,
  type ProjectionProgressOptions,
} from './projection-progress.ts';
export {
  noteAppends,
  watchReadModels,
  type ReadModelWatch,
  type ReadModelWatchOptions,
} from './read-model-watch.ts';
export { createRevocations, type RevocationsOptions } from './revocations.ts';
export {
  noSpans,
  openSpans,
  openTelemetryIds,
  traceAppends,
  type Span,
  type Spans,
  type TraceSettings,
} from './tracing/index.ts';
