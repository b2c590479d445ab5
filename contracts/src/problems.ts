import type { Actor } from './metadata.ts';
import type { EntityType } from './names.ts';
import type { Permission } from './permissions.ts';
import type { Statement } from './statements.ts';

/** The problems of the interface: stable code → HTTP status and title (rules.md §1). */
export const problems = {
  validation_failed: { status: 400, title: 'One or more validation errors occurred.' },
  unauthenticated: { status: 401, title: 'Unauthorized' },
  payment_required: { status: 402, title: 'Payment Required' },
  forbidden: { status: 403, title: 'Forbidden' },
  enterprise_required: { status: 403, title: 'Forbidden' },
  not_found: { status: 404, title: 'Not Found' },
  method_not_allowed: { status: 405, title: 'Method Not Allowed' },
  conflict: { status: 409, title: 'Conflict' },
  token_id_taken: { status: 409, title: 'Conflict' },
  token_locked: { status: 409, title: 'Conflict' },
  idempotency_in_flight: { status: 409, title: 'Conflict' },
  session_already_authorized: { status: 409, title: 'Conflict' },
  transaction_not_open: { status: 409, title: 'Conflict' },
  transaction_token_expired: { status: 409, title: 'Conflict' },
  transaction_full: { status: 409, title: 'Conflict' },
  too_many_transactions: { status: 409, title: 'Conflict' },
  payload_too_large: { status: 413, title: 'Content Too Large' },
  unsupported_media_type: { status: 415, title: 'Unsupported Media Type' },
  code_invalid: { status: 422, title: 'Unprocessable Content' },
  /** The place in the request of a proxy does not allow the value. */
  value_unfit: { status: 422, title: 'Unprocessable Content' },
  rate_limited: { status: 429, title: 'Too Many Requests' },
  /** The destination of a proxy gave no answer, or an answer that cannot be passed on. */
  destination_failed: { status: 502, title: 'Bad Gateway' },
  destination_timed_out: { status: 504, title: 'Gateway Timeout' },
  /** A write that may or may not have been done. `type` is the same for both statuses. */
  outcome_unknown: { status: 502, title: 'Bad Gateway' },
  outcome_unknown_in_time: { status: 504, title: 'Gateway Timeout', type: 'outcome-unknown' },
  internal: { status: 500, title: 'Internal Server Error' },
  record_altered: { status: 500, title: 'Internal Server Error' },
  reactor_failed: { status: 500, title: 'Internal Server Error' },
  unavailable: { status: 503, title: 'Service Unavailable' },
  /** The disk is too full for a write. */
  insufficient_storage: { status: 503, title: 'Service Unavailable' },
} as const satisfies Record<string, { status: number; title: string; type?: string }>;
export type ProblemCode = keyof typeof problems;

const codesOfFailures: Readonly<Record<number, ProblemCode>> = {
  400: 'validation_failed',
  401: 'unauthenticated',
  402: 'payment_required',
  403: 'forbidden',
  404: 'not_found',
  409: 'conflict',
  413: 'payload_too_large',
  422: 'code_invalid',
  429: 'rate_limited',
  503: 'unavailable',
};

/** The problem code in the answer to the caller of a failed run. */
export const reactorProblemCode = (status: number, reason: string): ProblemCode =>
  reason === 'record_altered' || reason === 'outcome_unknown'
    ? reason
    : (codesOfFailures[status] ?? 'reactor_failed');

/** `{"metadata.color": ["must be text"]}`: dotted path in snake_case → messages. Never contains a value of the request. */
export type FieldErrors = Readonly<Record<string, readonly string[]>>;

/** RFC 9457 problem details, the body of every error answer. */
export interface ProblemDetails {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly instance: string;
  readonly trace_id: string;
  readonly errors?: FieldErrors;
}

/** A request violates a rule of the product. Thrown by the code of the rule; the HTTP edge converts it to an answer. */
export class DomainError extends Error {
  readonly code: ProblemCode;
  readonly errors?: FieldErrors;
  constructor(code: ProblemCode, detail: string, options: ErrorOptions & { errors?: FieldErrors } = {}) {
    super(detail, options);
    this.name = new.target.name;
    this.code = code;
    if (options.errors) this.errors = options.errors;
  }
  get status(): number {
    return problems[this.code].status;
  }
}

/** The error of one item of a request for many tokens: problem details without the fields that are common to the request. */
export function itemErrorOf({ code, message: detail, errors }: DomainError): {
  type: string;
  title: string;
  detail: string;
  errors?: Record<string, string[]>;
} {
  const listed = errors && Object.fromEntries(Object.entries(errors).map(([name, all]) => [name, [...all]]));
  return {
    type: problemTypeOf(code),
    title: problems[code].title,
    detail,
    ...(listed && { errors: listed }),
  };
}

/** A limit of the errors in an answer. A request of 1 MiB may have a hundred thousand faults. */
const maxFaults = 100;

/** At most `maxFaults` fields, and the number of the omitted ones. */
function bounded(errors: FieldErrors): FieldErrors {
  const names = Object.keys(errors);
  if (names.length <= maxFaults) return errors;
  const shown = Object.fromEntries(names.slice(0, maxFaults).map((name) => [name, errors[name] ?? []]));
  return { ...shown, more: [`${names.length - maxFaults} more fields are not valid`] };
}

/** 400: the request is malformed. `errors` names every faulty field. */
export class ValidationError extends DomainError {
  constructor(errors: FieldErrors, options?: ErrorOptions) {
    super('validation_failed', 'The request is not valid; see errors.', {
      ...options,
      errors: bounded(errors),
    });
  }
  static of(field: string, message: string): ValidationError {
    return new ValidationError({ [field]: [message] });
  }
}

/** 401: the vault could not authenticate the caller. The client is not told the reason. */
export class UnauthenticatedError extends DomainError {
  constructor(detail = 'The SVC-API-KEY header is missing or its key is not valid.') {
    super('unauthenticated', detail);
  }
}

/** An entity that exists. */
export interface FoundEntity {
  readonly type: EntityType;
  readonly id: string;
}

/** An application or a session, and the permission that it lacks. */
export interface LackingRight {
  readonly actor: Actor;
  /** The application that authorised the session. */
  readonly authorizedBy?: string | undefined;
  readonly permission: Permission;
}

/** 403: the caller is authenticated and lacks the right. */
export class ForbiddenError extends DomainError {
  /** The entity that the caller may not see or change. Set only when the entity was found, because the log records it. */
  readonly entity?: FoundEntity;
  /** Who lacks the right. Of a step of running code it may be another than the caller of the request. */
  readonly lacking?: LackingRight;
  constructor(detail: string, entity?: FoundEntity, lacking?: LackingRight) {
    super('forbidden', detail);
    if (entity) this.entity = entity;
    if (lacking) this.lacking = lacking;
  }
}

/** 403: the caller may use the operation, but may not change these fields. */
export class FieldForbiddenError extends ForbiddenError {
  override readonly errors: FieldErrors;
  constructor(fields: readonly string[], reason: string, entity?: FoundEntity) {
    super(`${fields.join(', ')}: ${reason}.`, entity);
    this.errors = Object.fromEntries(fields.map((field) => [field, [reason]]));
  }
}

/** 403: the tenant's plan does not include the feature. */
export class EnterpriseRequiredError extends DomainError {
  constructor(feature: string) {
    super('enterprise_required', `${feature} needs the enterprise plan.`);
  }
}

/** 404: the entity does not exist in this tenant. The answer is the same when another tenant has it. */
export class NotFoundError extends DomainError {
  constructor(entity: string) {
    super('not_found', `${entity} was not found.`);
  }
}

type ConflictCode = {
  [Code in ProblemCode]: (typeof problems)[Code]['status'] extends 409 ? Code : never;
}[ProblemCode];

/** 409: the request is valid, but the present state forbids it. */
export class ConflictError extends DomainError {
  constructor(code: ConflictCode, detail: string) {
    super(code, detail);
  }
}

/** 502 and 504: the write may or may not have been done (rules.md §1). */
export class OutcomeUnknownError extends DomainError {
  constructor(code: 'outcome_unknown' | 'outcome_unknown_in_time', options?: ErrorOptions) {
    super(
      code,
      'The vault did not answer: the write may have been done or not. Repeat it with the same SVC-IDEMPOTENCY-KEY.',
      options,
    );
  }
}

/** The `type` of a problem: `urn:token-vault:problem:<name>`. */
export function problemTypeOf(code: ProblemCode): string {
  const { type }: { readonly title: string; readonly type?: string } = problems[code];
  return `urn:token-vault:problem:${type ?? code.replaceAll('_', '-')}`;
}

/** 503: nothing was done; the client may try again later. */
export class UnavailableError extends DomainError {
  constructor(detail: string, options?: ErrorOptions) {
    super('unavailable', detail, options);
  }
}

/** 503: no worker evaluates the expression. Whether an expression needs one depends on the data, so a guess counts this as a miss. */
export class ExpressionsBusyError extends UnavailableError {}

/**
 * 503 of a request that may have written events. Its detail says what holds, so the outcome is known: a revocation that is stored and not confirmed, a run
 * that was not started. Any other 503 after a write is {@link OutcomeUnknownError}.
 */
export class KnownOutcomeError extends UnavailableError {}

/** Transactions are not signed, but their streams hold their own events alone. */
export type RecordKind = Statement['kind'] | 'transaction';

/** 500: a stored record that decides about access is not what the vault wrote. The vault does not use it. */
export class AlteredRecordError extends DomainError {
  constructor(kind: RecordKind) {
    super('record_altered', `The stored record of the ${kind} is not as the vault wrote it; it was refused.`);
  }
}
