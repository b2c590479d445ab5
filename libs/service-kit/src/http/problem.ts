import {
  DomainError,
  problems,
  type FieldErrors,
  type ProblemCode,
  type ProblemDetails,
} from '@token-vault/contracts';
import { EventStoreUnavailableError, RevisionConflictError } from '@token-vault/event-store';

/** What an error becomes on the wire. */
export interface Problem {
  readonly status: number;
  readonly code: ProblemCode;
  readonly detail: string;
  readonly errors?: FieldErrors;
  readonly retryAfterSeconds?: number;
}

/** Errors of the body reader: their messages quote the body, so only their kind is used. */
const bodyProblems: Readonly<Record<string, Problem>> = {
  'entity.too.large': {
    status: 413,
    code: 'payload_too_large',
    detail: 'The request body is larger than 1 MiB.',
  },
  'entity.parse.failed': invalidBody('is not valid JSON'),
  'encoding.unsupported': {
    status: 415,
    code: 'unsupported_media_type',
    detail: 'The request body must not be compressed.',
  },
  'charset.unsupported': {
    status: 415,
    code: 'unsupported_media_type',
    detail: 'The request body must be UTF-8.',
  },
  'request.size.invalid': invalidBody('is not of the length that Content-Length gives'),
  'request.aborted': invalidBody('was cut off'),
};

function invalidBody(message: string): Problem {
  return {
    status: 400,
    code: 'validation_failed',
    detail: `The request body ${message}.`,
    errors: { body: [message] },
  };
}

/** Postgres: connection lost or refused, shutting down, too many connections, statement timeout, read-only. */
const unavailableCodes = /^(08...|57P0.|57014|53300|25006|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EPIPE|ENOENT)$/;

function isUnavailable(error: Error): boolean {
  if (error instanceof EventStoreUnavailableError) return true;
  const code: unknown = (error as { code?: unknown }).code;
  if (typeof code === 'string' && unavailableCodes.test(code)) return true;
  return /^(Connection terminated|timeout exceeded when trying to connect)/.test(error.message);
}

const unavailable: Problem = {
  status: 503,
  code: 'unavailable',
  detail: 'The vault cannot reach its store. Nothing was shown; try again.',
  retryAfterSeconds: 1,
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
    };
  }
  if (error instanceof RevisionConflictError) {
    return {
      status: 409,
      code: 'conflict',
      detail: 'It was changed at the same time. Read it and try again.',
    };
  }
  if (error instanceof Error) {
    const type: unknown = (error as { type?: unknown }).type;
    const known = typeof type === 'string' ? bodyProblems[type] : undefined;
    if (known) return known;
    if (isUnavailable(error)) return unavailable;
    if (error instanceof URIError)
      return {
        ...invalidBody(''),
        detail: 'The path is not valid.',
        errors: { path: ['is not valid percent-encoding'] },
      };
  }
  return {
    status: 500,
    code: 'internal',
    detail: 'Something went wrong inside the vault. The trace id finds it in the logs.',
  };
}

export function problemDetails(problem: Problem, instance: string, traceId: string): ProblemDetails {
  return {
    type: `urn:token-vault:problem:${problem.code.replaceAll('_', '-')}`,
    title: problems[problem.code].title,
    status: problem.status,
    detail: problem.detail,
    instance,
    trace_id: traceId,
    ...(problem.errors ? { errors: problem.errors } : {}),
  };
}
