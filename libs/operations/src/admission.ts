import type { Principal } from '@token-vault/access';
import { UnauthenticatedError, type Operation, type OperationId } from '@token-vault/contracts';
import { authorize } from './authorization.ts';
import type { RetiredKey } from './callers.ts';
import type { Clock } from './clock.ts';
import type { OperationRequest } from './operation-request.ts';
import { withReason } from './reason.ts';
import type { RecordedRefusals } from './recorded-refusals.ts';
import {
  recordDenied,
  recordingRefusal,
  recordRetiredKey,
  type DeniedOperation,
  type RefusalDependencies,
} from './refusals.ts';
import { createRequestContext, type RequestContext, type RequestContextOptions } from './request-context.ts';

export interface AdmissionDependencies extends RefusalDependencies {
  readonly clock: Clock;
  /** Called when a refusal could not be written to the log. */
  readonly onUnrecorded?: (error: unknown, request: Pick<OperationRequest, 'traceId'>, id: string) => void;
}

type Optional =
  | 'reason'
  | 'params'
  | 'causationId'
  | 'parents'
  | 'consoleSession'
  | 'onWaiting'
  | 'outOfTurn'
  | 'signal'
  | 'isLenient'
  | 'onInvoked';

/** One request, as far as the admission of its caller needs it. */
export interface AdmissionCall {
  /** The name of the operation in the log. */
  readonly id: string;
  readonly operation: DeniedOperation & Pick<Operation, 'plan' | 'summary' | 'takesProxyKeys'>;
  readonly request: Pick<OperationRequest, 'traceId' | 'identify'> &
    Partial<Pick<OperationRequest, Optional>>;
  /** Of the run of code that sends the request, or that the request asks for. */
  readonly refusals?: RecordedRefusals | undefined;
}

/** One request that the executor handles. */
export interface Call extends AdmissionCall {
  readonly id: OperationId;
  readonly operation: Operation;
  readonly request: OperationRequest;
}

/** The authenticated caller of a request. */
export interface Admitted {
  readonly principal: Principal;
  /** Time of the authentication, on the monotonic clock. */
  readonly atMs: number;
}

/** For this time after the authentication the caller is not authenticated again. */
export const admittedMs = 100;

const noKeyOfProxy = 'The key is missing or not valid: SVC-API-KEY, or svc-proxy-key in the query.';

/** Authenticates the caller. @throws UnauthenticatedError, ValidationError for its reason */
export async function authenticate(
  call: AdmissionCall,
  dependencies: AdmissionDependencies,
): Promise<Principal> {
  const result = await call.request.identify();
  if (result.kind === 'authenticated') return withReason(result.principal, call.request.reason);
  const noKey = call.operation.takesProxyKeys ? noKeyOfProxy : undefined;
  if (result.kind === 'unknown') throw new UnauthenticatedError(noKey);
  await refuseRetired(result.key, call, dependencies);
  throw new UnauthenticatedError(result.detail ?? noKey);
}

async function refuseRetired(
  key: RetiredKey,
  call: AdmissionCall,
  dependencies: AdmissionDependencies,
): Promise<void> {
  const { traceId, causationId } = call.request;
  const { id: request, refusals } = call;
  const asked = { traceId, causationId, refusals, now: dependencies.clock.now(), request };
  await settled(recordRetiredKey(dependencies.audit, key, asked), call, dependencies);
}

/** Records a refusal. If the record fails, the answer is still the refusal: it shows no data. @returns whether it is in the log */
async function settled(
  recording: Promise<unknown>,
  { id, request }: AdmissionCall,
  { onUnrecorded }: AdmissionDependencies,
): Promise<boolean> {
  try {
    await recording;
    return true;
  } catch (error) {
    onUnrecorded?.(error, request, id);
    return false;
  }
}

/** Does the work of a call for its caller. A refusal (403) of the work is recorded. */
export const workFor = <Result>(
  call: AdmissionCall,
  admitted: Admitted,
  dependencies: AdmissionDependencies,
  work: () => Promise<Result> | Result,
): Promise<Result> =>
  recordingRefusal((refusal) => {
    const context = contextOf(call, admitted, dependencies);
    return settled(recordDenied(dependencies, context, call, refusal), call, dependencies);
  }, work);

/** The context of the call for its caller. */
export function contextOf(
  call: AdmissionCall,
  admitted: Admitted,
  dependencies: AdmissionDependencies,
  options: Pick<RequestContextOptions, 'transactionId' | 'idempotencyScope' | 'isTakenOver'> = {},
): RequestContext {
  const { traceId, causationId, parents, consoleSession, isLenient } = call.request;
  const { signal, onWaiting, outOfTurn, onInvoked } = call.request;
  return createRequestContext({
    principal: admitted.principal,
    admittedAtMs: admitted.atMs,
    async principalNow() {
      const now = await stillAdmitted(call, admitted, dependencies);
      return now === admitted ? undefined : now.principal;
    },
    traceId,
    causationId,
    parents,
    refusals: call.refusals,
    consoleSession,
    signal,
    onWaiting,
    outOfTurn,
    onInvoked,
    isLenient,
    now: dependencies.clock.now(),
    request: call.id,
    ...options,
  });
}

/** Authenticates and authorises the caller. @throws UnauthenticatedError, ForbiddenError */
export async function principalNow(
  call: AdmissionCall,
  dependencies: AdmissionDependencies,
): Promise<Principal> {
  const principal = await authenticate(call, dependencies);
  authorize(call.operation, principal);
  return principal;
}

/** The caller with its present rights; `admitted` itself, when these were found less than `freshMs` ago. @throws as `principalNow` */
export async function admittedNow(
  admitted: Admitted,
  caller: { principalNow(): Promise<Principal> },
  freshMs = admittedMs,
): Promise<Admitted> {
  const atMs = performance.now();
  if (atMs - admitted.atMs < freshMs) return admitted;
  return { principal: await caller.principalNow(), atMs };
}

/**
 * Authenticates and authorises the caller again when the body came slowly or the answer took long: rights may have been withdrawn meanwhile
 * (rules.md §6).
 * @throws UnauthenticatedError, ForbiddenError
 */
export const stillAdmitted = (
  call: AdmissionCall,
  admitted: Admitted,
  dependencies: AdmissionDependencies,
): Promise<Admitted> => admittedNow(admitted, { principalNow: () => principalNow(call, dependencies) });
