import {
  DomainError,
  UnauthenticatedError,
  UnknownEventError,
  problemName,
  problems,
  type FieldErrors,
  type ProblemCode,
  type ProblemDetails,
} from '@token-vault/contracts';
import { RequestAbortedError } from './body.ts';
import { RateLimitedError } from './rate-limits.ts';
import { RootKeyUnavailableError, RootKeyUnusableError, TenantKeysMissingError } from '@token-vault/crypto';
import { EventStoreUnavailableError, RevisionConflictError } from '@token-vault/event-store';

/** What an error becomes on the wire. */
export interface Problem {
  readonly status: number;
  readonly code: ProblemCode;
  readonly detail: string;
  readonly errors?: FieldErrors;
  readonly retryAfterSeconds?: number;
}

const invalidPath: Problem = {
  status: 400,
  code: 'validation_failed',
  detail: 'The path is not valid.',
  errors: { path: ['is not valid percent-encoding'] },
};

/** Answered to nobody; only its status is logged. */
const aborted: Problem = {
  status: 400,
  code: 'validation_failed',
  detail: 'The request was cut off.',
  errors: { body: ['was cut off'] },
};

/** Postgres: connection lost or refused, shutting down, no resources, statement or lock timeout, deadlock, read-only. */
const unavailableCodes =
  /^(08...|53...|57P0.|57014|55P03|40P01|40001|25006|ECONN\w+|ETIMEDOUT|EPIPE|ENOENT|ENOTFOUND|EAI_AGAIN|E\w+UNREACH)$/;

/** Of pg, whose own errors have no code. */
const unavailableMessages =
  /^(Connection terminated|timeout exceeded when trying to connect|Query read timeout|Client has encountered|Client was closed|Cannot use a pool after)/;

function isUnavailable(error: Error): boolean {
  if (error instanceof EventStoreUnavailableError) return true;
  const code: unknown = (error as { code?: unknown }).code;
  if (typeof code === 'string' && unavailableCodes.test(code)) return true;
  return unavailableMessages.test(error.message);
}

const unavailable: Problem = {
  status: 503,
  code: 'unavailable',
  detail: 'The vault cannot reach its store. Nothing was shown; try again.',
  retryAfterSeconds: 1,
};

/** The log holds events of a newer release, whose processes can answer. */
const outdated: Problem = {
  ...unavailable,
  detail: 'This process is older than what is stored. Nothing was done; try again.',
};

/** The KMS is sealed, overloaded, out of reach, or has withdrawn the token: an operator's matter, told by the start and the log. */
const withoutRootKey: Problem = {
  ...unavailable,
  detail: 'The vault cannot use its root key now. Nothing was shown; try again.',
};

/** Sorts any error into a problem; what is not known is 500 and tells nothing. */
export function toProblem(error: unknown): Problem {
  if (error instanceof DomainError) {
    return {
      status: error.status,
      code: error.code,
      detail: error.message,
      ...(error.errors ? { errors: error.errors } : {}),
      ...(error.status === 503 ? { retryAfterSeconds: 1 } : {}),
      ...(error instanceof RateLimitedError ? { retryAfterSeconds: error.retryAfterSeconds } : {}),
    };
  }
  // The tenant was deleted while its caller was at work: to that caller, the key is no longer valid.
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
    if (isUnavailable(error)) return unavailable;
    if (error instanceof UnknownEventError) return outdated;
    if (error instanceof RootKeyUnavailableError || error instanceof RootKeyUnusableError)
      return withoutRootKey;
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
    type: `urn:token-vault:problem:${problemName(problem.code)}`,
    title: problems[problem.code].title,
    status: problem.status,
    detail: problem.detail,
    instance,
    trace_id: traceId,
    ...(problem.errors ? { errors: problem.errors } : {}),
  };
}
