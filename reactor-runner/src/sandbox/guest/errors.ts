import { apply, asString, BaseError, isArray } from './bridge.ts';
import { ServiceError } from './calls.ts';

/** The content of a vault error, kept where the guest can neither change nor forge it. */
export interface Branded {
  readonly status: number;
  readonly detail: string;
  readonly errors: Record<string, string[]>;
  readonly custom?: { headers: Record<string, string>; body?: unknown };
}

const brands = new WeakMap<object, Branded>();
// Taken now: the guest may patch the prototype, and must not be able to forge a brand by it.
// eslint-disable-next-line @typescript-eslint/unbound-method -- applied to `brands` only
const { get: readBrand, set: writeBrand } = WeakMap.prototype;

export function brandOf(error: unknown): Branded | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  return apply(readBrand, brands, [error]) as Branded | undefined;
}

const maxMessages = 50;
const maxMessageChars = 2_000;

function message(value: unknown): string {
  try {
    const text =
      value instanceof BaseError ? value.message : typeof value === 'object' ? JSON.stringify(value) : value;
    return asString(text).slice(0, maxMessageChars);
  } catch {
    return 'A value that cannot be shown';
  }
}

function messages(value: unknown): string[] {
  return isArray(value) ? value.slice(0, maxMessages).map(message) : [message(value)];
}

/**
 * Array → `{error: […]}`, Error → its message, object → each property as texts, text → itself, no value → `generic`.
 */
export function errorsFrom(cause: unknown, generic: string): Record<string, string[]> {
  if (cause === undefined || cause === null) return { error: [generic] };
  if (isArray(cause)) return { error: messages(cause) };
  if (cause instanceof BaseError || typeof cause !== 'object') return { error: [message(cause)] };
  const entries = Object.entries(cause).slice(0, maxMessages);
  return Object.fromEntries(entries.map(([key, value]) => [key.slice(0, 200), messages(value)]));
}

function errorClass(name: string, status: number, detail: string, generic: string) {
  const defined = class extends BaseError {
    readonly status = status;
    constructor(cause?: unknown) {
      super(typeof cause === 'string' ? cause : cause instanceof BaseError ? cause.message : detail);
      this.name = name;
      apply(writeBrand, brands, [this, { status, detail, errors: errorsFrom(cause, generic) }]);
    }
    get data(): Record<string, string[]> | undefined {
      return brandOf(this)?.errors;
    }
  };
  Object.defineProperty(defined, 'name', { value: name });
  return defined;
}

class CustomHttpResponseError extends BaseError {
  override name = 'CustomHttpResponseError';
  readonly status: number;
  constructor(response: { status?: unknown; headers?: unknown; body?: unknown } = {}) {
    super('Custom HTTP response');
    const { status, headers, body } = response;
    this.status = Number(status);
    const texts = Object.entries(headers ?? {}).map(([key, value]) => [key, asString(value)]);
    const custom = { headers: Object.fromEntries(texts) as Record<string, string>, body };
    apply(writeBrand, brands, [
      this,
      { status: this.status, detail: 'Custom HTTP Response', errors: {}, custom },
    ]);
  }
}

export const createErrors = () => ({
  AuthenticationError: errorClass(
    'AuthenticationError',
    401,
    'Authentication Failed',
    'Authentication failed',
  ),
  AuthorizationError: errorClass('AuthorizationError', 403, 'Forbidden', 'Not allowed'),
  BadRequestError: errorClass('BadRequestError', 400, 'Bad Request', 'The request is not valid'),
  InvalidPaymentMethodError: errorClass(
    'InvalidPaymentMethodError',
    402,
    'Invalid Payment Method',
    'The payment method is not valid',
  ),
  InvalidReactorConfigurationError: errorClass(
    'InvalidReactorConfigurationError',
    400,
    'Invalid Reactor Configuration',
    'The configuration of the reactor is not valid',
  ),
  RateLimitError: errorClass('RateLimitError', 429, 'Rate Limit Exceeded', 'Too many requests'),
  ReactorRuntimeError: errorClass('ReactorRuntimeError', 500, 'Reactor Runtime Error', 'The reactor failed'),
  CustomHttpResponseError,
  ServiceError,
});
