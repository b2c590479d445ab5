import {
  DomainError,
  UnauthenticatedError,
  UnknownEventError,
  problems,
  problemTypeOf,
  type FieldErrors,
  type ProblemCode,
  type ProblemDetails,
} from '@token-vault/contracts';
import { RequestAbortedError } from './request-life.ts';
import { RateLimitedError } from './rate-limits.ts';
import { RootKeyUnavailableError, RootKeyUnusableError, TenantKeysMissingError } from '@token-vault/crypto';
import { InsufficientStorageError, RevisionConflictError } from '@token-vault/event-store';
import { isUnavailable } from '@token-vault/operations';

/** The HTTP form of an error. */
export interface Problem {
  readonly status: number;
  readonly code: ProblemCode;
  readonly detail: string;
  readonly errors?: FieldErrors;
  readonly retryAfterSeconds?: number;
  readonly endsConnection?: boolean;
}

const invalidPath: Problem = {
  status: 400,
  code: 'validation_failed',
  detail: 'The path is not valid.',
  errors: { path: ['is not valid percent-encoding'] },
};

/** The client has disconnected, so this is not sent; its status is logged. */
const aborted: Problem = {
  status: 400,
  code: 'validation_failed',
  detail: 'The request was cut off.',
  errors: { body: ['was cut off'] },
};

const unavailable: Problem = {
  status: 503,
  code: 'unavailable',
  detail: 'The vault cannot reach its store. Nothing was shown; try again.',
  retryAfterSeconds: 1,
};

/** An operator has to free space on the disk. The log and the metrics of the process have reported it before. */
const withoutSpace: Problem = {
  status: 503,
  code: 'insufficient_storage',
  detail: 'The disk of the vault is full. Nothing was done; try again later.',
  retryAfterSeconds: 10,
};

/** The log holds events of a newer release; processes of that release can answer. */
const outdated: Problem = {
  ...unavailable,
  detail: 'This process is older than what is stored. Nothing was done; try again.',
};

/**
 * The KMS is sealed, overloaded or out of reach, or has withdrawn the token. An operator has to act; the start-up error and the log say so.
 */
const withoutRootKey: Problem = {
  ...unavailable,
  detail: 'The vault cannot use its root key now. Nothing was shown; try again.',
};

/** The windows of all limits. The stored failure of a run does not tell when its window ends. */
const limitWindowSeconds = 60;

/** Whether, and when, the same request may succeed. */
function retryOf(error: DomainError): Pick<Problem, 'retryAfterSeconds' | 'endsConnection'> {
  const { status, code } = error;
  if (error instanceof RateLimitedError)
    return { retryAfterSeconds: error.retryAfterSeconds, endsConnection: error.endsConnection };
  if (code === 'rate_limited') return { retryAfterSeconds: limitWindowSeconds };
  return status === 503 || code === 'idempotency_in_flight' ? { retryAfterSeconds: 1 } : {};
}

/** Undefined unless a part that the vault needs cannot be used now. */
function outageOf(error: Error): Problem | undefined {
  if (error instanceof InsufficientStorageError) return withoutSpace;
  if (isUnavailable(error)) return unavailable;
  if (error instanceof UnknownEventError) return outdated;
  if (error instanceof RootKeyUnavailableError || error instanceof RootKeyUnusableError)
    return withoutRootKey;
  return undefined;
}

/** Converts any error into a problem. An unknown error is 500 without details. */
export function toProblem(error: unknown): Problem {
  if (error instanceof DomainError) {
    return {
      status: error.status,
      code: error.code,
      detail: error.message,
      ...(error.errors ? { errors: error.errors } : {}),
      ...retryOf(error),
    };
  }
  // The tenant was deleted during the request: for the caller, the key is no longer valid.
  if (error instanceof TenantKeysMissingError) return toProblem(new UnauthenticatedError());
  if (error instanceof RevisionConflictError) {
    return {
      status: 409,
      code: 'conflict',
      detail: 'It was changed at the same time. Read it and try again.',
    };
  }
  if (error instanceof Error) {
    if (error instanceof RequestAbortedError) return aborted;
    const outage = outageOf(error);
    if (outage) return outage;
    if (error instanceof URIError) return invalidPath;
  }
  return {
    status: 500,
    code: 'internal',
    detail: 'Something went wrong inside the vault. The trace id finds it in the logs.',
  };
}

export function problemDetails(problem: Problem, instance: string, traceId: string): ProblemDetails {
  return {
    type: problemTypeOf(problem.code),
    title: problems[problem.code].title,
    status: problem.status,
    detail: problem.detail,
    instance,
    trace_id: traceId,
    ...(problem.errors ? { errors: problem.errors } : {}),
  };
}
