export { createAuditTrail, type AuditTrail } from './audit-trail.ts';
export type { Identity, RetiredKey } from './callers.ts';
export { systemClock, type Clock } from './clock.ts';
export {
  createExecutor,
  type Executor,
  type ExecutorDependencies,
  type OperationRequest,
  type Outcome,
} from './executor.ts';
export type {
  Answer,
  AnswerOwner,
  AnswerToken,
  Handler,
  Handlers,
  HandlersOf,
  Input,
  Path,
} from './handlers.ts';
export type {
  ApplicationReplay,
  IdempotentAnswers,
  IdempotentRequest,
  Repeating,
  StoredToken,
  TokenFacts,
  TokenReplay,
} from './idempotency.ts';
export type { ReadModelProgress, ReadModelWatch, Revocations } from './progress.ts';
export { recordRetiredKey, type FindEntity } from './refusals.ts';
export { createRequestContext, type RequestContext, type RequestContextOptions } from './request-context.ts';
export { parseInput } from './validation.ts';
