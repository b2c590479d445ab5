import type { Principal } from '@token-vault/access';
import {
  NotFoundError,
  operations,
  UnauthenticatedError,
  UnavailableError,
  type Operation,
  type OperationId,
} from '@token-vault/contracts';
import type { AuditTrail } from './audit-trail.ts';
import { authorize, transactionIdOf } from './authorization.ts';
import type { Identity, RetiredKey } from './callers.ts';
import type { Clock } from './clock.ts';
import type { Answer, Handler, Handlers } from './handlers.ts';
import type { ApplicationReplay, IdempotentAnswers, TokenReplay } from './idempotency.ts';
import type { ReadModelProgress, ReadModelWatch, Revocations } from './progress.ts';
import {
  isShown,
  requireNothingLost,
  requireReadModels,
  waitForGivenPosition,
  waitForOwnWrite,
} from './read-models.ts';
import { isRefusal, recordDenied, recordRetiredKey, type FindEntity } from './refusals.ts';
import { createRepeating } from './repeats.ts';
import { createRequestContext, type RequestContext } from './request-context.ts';
import { checkMediaType, noParameters, parseInput } from './validation.ts';

export interface ExecutorDependencies {
  readonly handlers: Handlers;
  readonly audit: AuditTrail;
  readonly progress: ReadModelProgress;
  readonly watch: ReadModelWatch;
  readonly revocations: Revocations;
  readonly clock: Clock;
  readonly idempotency?: IdempotentAnswers | undefined;
  /** Needed with `idempotency` by what answers with tokens. */
  readonly tokenReplay?: TokenReplay | undefined;
  /** Needed with `idempotency` by what answers with applications. */
  readonly applicationReplay?: ApplicationReplay | undefined;
  /** Drops what is cached of callers: a key, a rule, a session or a tenant may have changed. */
  readonly forgetCallers?: (() => void) | undefined;
  /** For the record of refusals; without it they name only what handlers found. */
  readonly findEntity?: FindEntity | undefined;
  /** A refusal that could not be written to the log. */
  readonly onUnrecorded?: (error: unknown, request: OperationRequest, id: OperationId) => void;
}

/** One request, as an entrance (HTTP, reactor code) brings it: nothing in it is validated. */
export interface OperationRequest {
  readonly traceId: string;
  /**
   * Whom the credential of the request belongs to at this moment. Asked again when the rest of the request took its time.
   * @throws DomainError
   */
  identify(): Promise<Identity>;
  readonly params: unknown;
  readonly query: unknown;
  /** Called once the rest is valid. @throws DomainError */
  readBody(): Promise<unknown>;
  /** What the body says it is; absent when it comes as a value. */
  readonly mediaType?: string | undefined;
  /** SVC-TRANSACTION-ID, SVC-POSITION, SVC-IDEMPOTENCY-KEY. */
  readonly transactionId?: string | undefined;
  readonly position?: string | undefined;
  readonly idempotencyKey?: string | undefined;
  /** The caller does not wait for the read models. */
  readonly isAsync?: boolean | undefined;
  /** Unknown fields are ignored (`Prefer: handling=lenient`, rules.md §1). */
  readonly isLenient?: boolean | undefined;
  /** The invocation that the request comes from. */
  readonly causationId?: string | undefined;
  /** What the ids of its events are made of, when the entrance itself may repeat the request. */
  readonly idempotencyScope?: readonly string[] | undefined;
}

export interface Outcome {
  readonly answer: Answer;
  /** The read models show what was written. */
  readonly isVisible: boolean;
}

export interface Executor {
  /** @throws DomainError, and whatever the store and the database throw */
  execute(id: OperationId, request: OperationRequest): Promise<Outcome>;
}

/** The caller as he was made out. */
interface Admitted {
  readonly principal: Principal;
  /** Of the monotonic clock. */
  readonly atMs: number;
}

/** As long as this who calls need not be made out again. */
const admittedMs = 100;

/** One request on its way. */
interface Call {
  readonly id: OperationId;
  readonly operation: Operation;
  readonly request: OperationRequest;
}

/**
 * The one way through the vault, for every entrance: credential → principal → authorise → validate → idempotency → handle → own
 * writes → record of refusals. What an operation needs is said in the operations table.
 */
export function createExecutor(dependencies: ExecutorDependencies): Executor {
  return {
    execute: (id, request) => execute({ id, operation: operations[id], request }, dependencies),
  };
}

async function execute(call: Call, dependencies: ExecutorDependencies): Promise<Outcome> {
  const { progress } = dependencies;
  const { operation, request } = call;
  await requireReadModels(progress);
  const { losses } = progress;
  // Callers are read from a read model, for commands too.
  const atMs = performance.now();
  const principal = await authenticate(call, dependencies).finally(() =>
    requireNothingLost(progress, losses),
  );
  const isQuery = operation.service === 'query';
  try {
    authorize(operation, principal);
    await dependencies.watch.requireMoving(operation.answersFrom ?? []);
    const answer = await answerOf(call, { principal, atMs }, dependencies);
    if (isQuery) requireNothingLost(progress, losses);
    const isVisible = await waitForOwnWrite(dependencies, operation, answer, request.isAsync ?? false);
    return { answer, isVisible };
  } catch (error) {
    // What is not found may not be found again yet.
    if (isQuery && error instanceof NotFoundError) requireNothingLost(progress, losses);
    if (isRefusal(error)) {
      const context = contextOf(call, principal, dependencies);
      const refused = { refusal: error, params: request.params };
      await settled(recordDenied(dependencies, context, call.id, refused), call, dependencies);
    }
    throw error;
  }
}

/** Whoever sends a body slowly must not outlive the rights with which he began. */
async function stillAdmitted(
  call: Call,
  { principal, atMs }: Admitted,
  dependencies: ExecutorDependencies,
): Promise<Principal> {
  if (performance.now() - atMs < admittedMs) return principal;
  const now = await authenticate(call, dependencies);
  authorize(call.operation, now);
  return now;
}

async function authenticate(call: Call, dependencies: ExecutorDependencies): Promise<Principal> {
  const result = await call.request.identify();
  if (result.kind === 'authenticated') return result.principal;
  if (result.kind === 'unknown') throw new UnauthenticatedError();
  await refuseRetired(result.key, call, dependencies);
  throw new UnauthenticatedError(result.detail);
}

async function refuseRetired(key: RetiredKey, call: Call, dependencies: ExecutorDependencies): Promise<void> {
  const { traceId, causationId } = call.request;
  const request = { traceId, causationId, now: dependencies.clock.now(), request: call.id };
  await settled(recordRetiredKey(dependencies.audit, key, request), call, dependencies);
}

/** A refusal shows nothing, so it stays a refusal even when it cannot be recorded. */
async function settled(
  recording: Promise<unknown>,
  { id, request }: Call,
  { onUnrecorded }: ExecutorDependencies,
): Promise<void> {
  await recording.catch((error: unknown) => onUnrecorded?.(error, request, id));
}

function contextOf(
  { id, request }: Call,
  principal: Principal,
  { clock }: ExecutorDependencies,
  options: { transactionId?: string | undefined; idempotencyScope?: readonly string[] | undefined } = {},
): RequestContext {
  const { traceId, causationId } = request;
  return createRequestContext({
    principal,
    traceId,
    causationId,
    now: clock.now(),
    request: id,
    ...options,
  });
}

const repeatableMethods: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH']);

async function answerOf(call: Call, admitted: Admitted, dependencies: ExecutorDependencies): Promise<Answer> {
  const { id, operation, request } = call;
  const { handlers, progress, idempotency } = dependencies;
  const handler = handlers[id] as Handler<OperationId> | undefined;
  if (!handler) throw new UnavailableError('The operation is not available here.');
  const input = await inputOf(operation, request);
  await waitForGivenPosition(progress, operation, request.position);
  const principal = await stillAdmitted(call, admitted, dependencies);
  const transactionId = transactionIdOf(operation, principal, request.transactionId);

  const run = (idempotencyScope = request.idempotencyScope): Promise<Answer> =>
    handler(input, contextOf(call, principal, dependencies, { transactionId, idempotencyScope }));
  const { idempotencyKey: key } = request;
  // A query that is sent by POST is simply run again: nothing is written twice by it.
  const isRepeatable = operation.service === 'command' && repeatableMethods.has(operation.method);
  if (key === undefined || !idempotency || !isRepeatable) return run();
  // The parsed path, so that another spelling of it (a trailing slash, an escape) is the same request.
  const path = JSON.stringify([operation.path, input.params ?? null]);
  const context = contextOf(call, principal, dependencies, { transactionId });
  const isVisible = (answer: Answer) => isShown(progress, answer);
  const repeating = createRepeating({ ...dependencies, isVisible }, operation, input.params, context);
  return idempotency.run({ principal, method: operation.method, path, key }, run, repeating);
}

type AnyInput = Parameters<Handler<OperationId>>[0];

async function inputOf(operation: Operation, request: OperationRequest): Promise<AnyInput> {
  checkMediaType(operation, request.mediaType);
  const isLenient = request.isLenient ?? false;
  const params = parseInput(operation.params, request.params, { root: 'path' });
  const query = parseInput(operation.query ?? noParameters, request.query, { root: 'query', isLenient });
  const body = operation.body
    ? parseInput(operation.body, await request.readBody(), { root: 'body', isLenient })
    : undefined;
  return { params, query, body } as AnyInput;
}
