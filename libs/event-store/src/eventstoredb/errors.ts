import { AppendTooLargeError, EventStoreAccessError, EventStoreUnavailableError } from '../port.ts';

/** What the client throws: its own errors have a `type`, those of grpc only a `code`, those of discovery neither. */
interface ClientError extends Error {
  readonly type?: string;
  readonly code?: number | string;
  readonly maxAppendSize?: number;
  readonly _raw?: { readonly metadata?: { getMap(): Record<string, string | Buffer> } };
}

/** gRPC status codes that say that the call was wrong, not the moment: the same call would fail again. */
const defectCodes: ReadonlySet<unknown> = new Set([3, 5, 6, 9, 11, 12, 15]);

const refusals: ReadonlySet<unknown> = new Set([
  'stream-deleted',
  'invalid-argument',
  'missing-required-metadata-property',
  'unsupported',
  'no-stream',
  'not-found',
]);

/** What can be told apart of an error: the client's name for it, or the gRPC status code. */
export function errorKind(error: unknown): string | number | undefined {
  const { type, code } = error as ClientError;
  return type ?? code;
}

const readAllRight = 'read $all';
const unauthenticated = 16;

/** Servers say UNAUTHENTICATED of a name or password that they do not know, PERMISSION_DENIED of a right that is missing. */
function asRefusal(error: unknown, right: string): EventStoreAccessError {
  const reason =
    (error as ClientError).code === unauthenticated
      ? 'does not know this user name and password'
      : `does not let this account ${right}`;
  return new EventStoreAccessError(`the event store ${reason}`, { cause: error });
}

/**
 * The error that callers may retry on, or the error itself when it is a defect. What cannot be told is unavailable:
 * to repeat an append with the same ids is safe, to give it up may not be.
 */
export function asUnavailable(error: unknown, right = readAllRight): Error {
  if (error instanceof EventStoreUnavailableError) return error;
  if (errorKind(error) === 'access-denied') return asRefusal(error, right);
  if (error instanceof TypeError || error instanceof RangeError || isDefect(error)) return error as Error;
  const reason = errorKind(error) ?? (error instanceof Error ? error.message : 'unknown');
  return new EventStoreUnavailableError(`the event store is unavailable: ${reason}`, { cause: error });
}

function isDefect(error: unknown): boolean {
  const { type, code } = error as ClientError;
  if (refusals.has(type)) return true;
  return (type === undefined || type === 'unknown') && defectCodes.has(code);
}

/** The server found an append, or one of its events, too large; servers newer than the client have an error of their own for it. */
export function asTooLarge(error: unknown, bytes: number): AppendTooLargeError | undefined {
  const { type, maxAppendSize, _raw } = error as ClientError;
  if (type === 'maximum-append-size-exceeded') return new AppendTooLargeError(bytes, maxAppendSize);
  const exception = _raw?.metadata?.getMap()['exception']?.toString() ?? '';
  return /^maximum-append-(event-)?size-exceeded$/.test(exception)
    ? new AppendTooLargeError(bytes)
    : undefined;
}

/** 23.10 ends the subscription of a reader that was too slow while live, and leaves it to the client to subscribe again. */
export function endsSlowReader(error: Error): boolean {
  const { cause } = error;
  return cause instanceof Error && errorKind(cause) === 'timeout' && /too slow/i.test(cause.message);
}
