import type { Principal } from '@token-vault/access';
import { UnauthenticatedError, type Operation, type OperationId } from '@token-vault/contracts';
import type { AuditTrail } from './audit-trail.ts';
import { authorize } from './authorization.ts';
import type { RetiredKey } from './callers.ts';
import type { Clock } from './clock.ts';
import type { OperationRequest } from './operation-request.ts';
import { withReason } from './reason.ts';
import type { RecordedRefusals } from './recorded-refusals.ts';
import { recordRetiredKey } from './refusals.ts';

export interface AdmissionDependencies {
  readonly audit: AuditTrail;
  readonly clock: Clock;
  /** Called when a refusal could not be written to the log. */
  readonly onUnrecorded?: (error: unknown, request: OperationRequest, id: OperationId) => void;
}

/** One request that the executor handles. */
export interface Call {
  readonly id: OperationId;
  readonly operation: Operation;
  readonly request: OperationRequest;
  /** Of the run of code that sends the request, or that the request asks for. */
  readonly refusals?: RecordedRefusals | undefined;
}

/** The authenticated caller of a request. */
export interface Admitted {
  readonly principal: Principal;
  /** Time of the authentication, on the monotonic clock. */
  readonly atMs: number;
}

/** For this time after the authentication the caller is not authenticated again. */
export const admittedMs = 100;

/** Authenticates the caller. @throws UnauthenticatedError, ValidationError for its reason */
export async function authenticate(call: Call, dependencies: AdmissionDependencies): Promise<Principal> {
  const result = await call.request.identify();
  if (result.kind === 'authenticated') return withReason(result.principal, call.request.reason);
  if (result.kind === 'unknown') throw new UnauthenticatedError();
  await refuseRetired(result.key, call, dependencies);
  throw new UnauthenticatedError(result.detail);
}

async function refuseRetired(
  key: RetiredKey,
  call: Call,
  dependencies: AdmissionDependencies,
): Promise<void> {
  const { traceId, causationId } = call.request;
  const { id: request, refusals } = call;
  const asked = { traceId, causationId, refusals, now: dependencies.clock.now(), request };
  await settled(recordRetiredKey(dependencies.audit, key, asked), call, dependencies);
}

/** Records a refusal. If the record fails, the answer is still the refusal: it shows no data. @returns whether it is in the log */
export async function settled(
  recording: Promise<unknown>,
  { id, request }: Call,
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

/** Authenticates and authorises the caller. @throws UnauthenticatedError, ForbiddenError */
export async function principalNow(call: Call, dependencies: AdmissionDependencies): Promise<Principal> {
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
  call: Call,
  admitted: Admitted,
  dependencies: AdmissionDependencies,
): Promise<Admitted> => admittedNow(admitted, { principalNow: () => principalNow(call, dependencies) });
