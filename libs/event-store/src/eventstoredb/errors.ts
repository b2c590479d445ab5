import {
  AppendTooLargeError,
  AppendUnansweredError,
  EventStoreAccessError,
  EventStoreUnavailableError,
} from '../port.ts';

/** Errors of the client: its own errors have a `type`, errors of grpc only a `code`, errors of discovery neither. */
interface ClientError extends Error {
  readonly type?: string;
  readonly code?: number | string;
  readonly maxAppendSize?: number;
  readonly _raw?: { readonly metadata?: { getMap(): Record<string, string | Buffer> } };
}

/** gRPC status codes for a wrong call: the same call would fail again. */
const defectCodes: ReadonlySet<unknown> = new Set([3, 5, 6, 9, 11, 12, 15]);

const refusals: ReadonlySet<unknown> = new Set([
  'stream-deleted',
  'invalid-argument',
  'missing-required-metadata-property',
  'unsupported',
  'no-stream',
  'not-found',
]);

/** The kind of an error: the client's name for it, or the gRPC status code. */
export function errorKind(error: unknown): string | number | undefined {
  const { type, code } = error as ClientError;
  return type ?? code;
}

const readAllRight = 'read $all';
const unauthenticated = 16;

/** UNAUTHENTICATED: the server does not know the name or the password. PERMISSION_DENIED: a right is missing. */
function asRefusal(error: unknown, right: string): EventStoreAccessError {
  const reason =
    (error as ClientError).code === unauthenticated
      ? 'does not know this user name and password'
      : `does not let this account ${right}`;
  return new EventStoreAccessError(`the event store ${reason}`, { cause: error });
}

/**
 * The error that callers may retry on, or the error itself when it is a defect. An unknown error counts as unavailable: an append can
 * safely be repeated with the same ids, while giving it up may lose events.
 */
export function asUnavailable(error: unknown, right = readAllRight): Error {
  if (error instanceof EventStoreUnavailableError) return error;
  if (errorKind(error) === 'access-denied') return asRefusal(error, right);
  if (error instanceof TypeError || error instanceof RangeError || isDefect(error)) return error as Error;
  const reason = errorKind(error) ?? (error instanceof Error ? error.message : 'unknown');
  return new EventStoreUnavailableError(`the event store is unavailable: ${reason}`, { cause: error });
}

/** The server refused the call before it did any work. */
const refusedKinds: ReadonlySet<unknown> = new Set(['not-leader', 'access-denied']);

/** Messages of grpc-js for a call that never had a connection, and of the client for a cluster that it does not find. */
const unsentMessages = /No connection established|Failed to discover/i;

/** As `asUnavailable`, for an append that was passed to the client. */
export function asUnanswered(error: unknown, right: string): Error {
  if (error instanceof EventStoreUnavailableError) return error;
  const failure = asUnavailable(error, right);
  if (!(failure instanceof EventStoreUnavailableError)) return failure;
  const isUnsent =
    refusedKinds.has(errorKind(error)) || (error instanceof Error && unsentMessages.test(error.message));
  return isUnsent ? failure : new AppendUnansweredError(failure.message, { cause: error });
}

function isDefect(error: unknown): boolean {
  const { type, code } = error as ClientError;
  if (refusals.has(type)) return true;
  return (type === undefined || type === 'unknown') && defectCodes.has(code);
}

/**
 * An append, or one of its events, is too large for the server. Servers newer than the client report this with an error that the client
 * does not know.
 */
export function asTooLarge(error: unknown, bytes: number): AppendTooLargeError | undefined {
  const { type, maxAppendSize, _raw } = error as ClientError;
  if (type === 'maximum-append-size-exceeded') return new AppendTooLargeError(bytes, maxAppendSize);
  const exception = _raw?.metadata?.getMap()['exception']?.toString() ?? '';
  return /^maximum-append-(event-)?size-exceeded$/.test(exception)
    ? new AppendTooLargeError(bytes)
    : undefined;
}

/** Server 23.10 ends the subscription of a reader that was too slow while live; the client has to subscribe again. */
export function endsSlowReader(error: Error): boolean {
  const { cause } = error;
  return cause instanceof Error && errorKind(cause) === 'timeout' && /too slow/i.test(cause.message);
}
