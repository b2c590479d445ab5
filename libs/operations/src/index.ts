export { createAuditTrail, type AuditTrail } from './audit-trail.ts';
export type { Identity, RetiredKey } from './callers.ts';
export { systemClock, type Clock } from './clock.ts';
export { commandLineCaller } from './command-line.ts';
export { createRepeating } from './repeats.ts';
export { createExecutor, type Executor, type ExecutorDependencies, type Outcome } from './executor.ts';
export type {
  Answer,
  AnswerOwner,
  AnswerStream,
  AnswerToken,
  Handler,
  Handlers,
  HandlersOf,
  Input,
  Path,
  PendingAnswer,
  Showing,
} from './handlers.ts';
export {
  namedTokens,
  type ApplicationReplay,
  type IdempotentAnswers,
  type IdempotentRequest,
  type Repeating,
  type ShownAgain,
  type StoredToken,
  type TokenFacts,
  type TokenReplay,
} from './idempotency.ts';
export { againAtMost, asRightsAreNow, type PresentCaller } from './present-answer.ts';
export type { ReadModelProgress, ReadModelWatch, Revocations } from './progress.ts';
export type { NamedSession, OperationRequest } from './operation-request.ts';
export { withReason } from './reason.ts';
export { DataDependentError, type MadeOf } from './data-dependent-error.ts';
export {
  deniedEvent,
  recordDeniedStep,
  recordingRefusal,
  recordRetiredKey,
  type FindEntity,
} from './refusals.ts';
export { RecordedRefusals } from './recorded-refusals.ts';
export { createRequestContext, type RequestContext, type RequestContextOptions } from './request-context.ts';
export type { Space } from './space.ts';
export { isUnavailable, throwAfterWork } from './unavailable.ts';
export { parseInput } from './validation.ts';
export { noteWrites } from './writes.ts';
