import { inspect, isDeepStrictEqual } from 'util';

export class AssertionError extends Error {
  readonly code = 'ERR_ASSERTION';
  readonly actual: unknown;
  readonly expected: unknown;
  constructor({ message, actual, expected }: { message?: string; actual?: unknown; expected?: unknown }) {
    super(message ?? `${inspect(actual)} is not as expected: ${inspect(expected)}`);
    this.name = 'AssertionError';
    this.actual = actual;
    this.expected = expected;
  }
}

function check(holds: boolean, actual: unknown, expected: unknown, message?: Error | string): void {
  if (holds) return;
  if (message instanceof Error) throw message;
  throw new AssertionError({ actual, expected, ...(message === undefined ? {} : { message }) });
}

type Message = Error | string;

export const ok = (value: unknown, message?: Message) => check(Boolean(value), value, true, message);
/* eslint-disable eqeqeq -- the legacy functions compare loosely, which is their only difference */
export const equal = (a: unknown, b: unknown, message?: Message) => check(a == b, a, b, message);
export const notEqual = (a: unknown, b: unknown, message?: Message) => check(a != b, a, b, message);
/* eslint-enable eqeqeq */
export const strictEqual = (a: unknown, b: unknown, message?: Message) =>
  check(Object.is(a, b), a, b, message);
export const notStrictEqual = (a: unknown, b: unknown, message?: Message) =>
  check(!Object.is(a, b), a, b, message);
export const deepEqual = (a: unknown, b: unknown, message?: Message) =>
  check(isDeepStrictEqual(a, b), a, b, message);
export const deepStrictEqual = deepEqual;
export const notDeepStrictEqual = (a: unknown, b: unknown, message?: Message) =>
  check(!isDeepStrictEqual(a, b), a, b, message);
export const match = (text: string, pattern: RegExp, message?: Message) =>
  check(pattern.test(text), text, pattern, message);
export const fail = (message: Message = 'Failed') => check(false, undefined, undefined, message);

export function throws(block: () => unknown): void {
  let hasThrown = false;
  try {
    block();
  } catch {
    hasThrown = true;
  }
  check(hasThrown, undefined, undefined, 'Missing expected exception');
}

export async function rejects(promise: Promise<unknown> | (() => Promise<unknown>)): Promise<void> {
  const hasRejected = await (typeof promise === 'function' ? promise() : promise).then(
    () => false,
    () => true,
  );
  check(hasRejected, undefined, undefined, 'Missing expected rejection');
}
