/**
 * The only way out of the isolate. Arguments are always template literals: for an argument that is not a primitive
 * string, the host side would run guest getters to serialise it.
 */
declare const __host: (operation: string, first: string, second: string) => string | undefined;

const rawHost = __host;

export function host(
  operation: string,
  first: number | string = '',
  second: number | string = '',
): string | undefined {
  return rawHost(`${operation}`, `${first}`, `${second}`);
}

// Captured before any code of a tenant runs, so that patched globals cannot change the messages to the host.
export const { stringify, parse } = JSON;
export const CompileFunction = Function;
export const { apply } = Reflect;
export const asString = String;
export const BaseError = Error;
export const BaseRangeError = RangeError;
export const isArray = Array.isArray;
export const NativePromise = Promise;

/** The part of the runtime that its chunks may use besides the guest's globals. */
export interface Internal {
  /** A synchronous host operation, in JSON. Throws the error that the host reports. */
  sync(operation: string, input: unknown): unknown;
  /** An asynchronous host call, in JSON. */
  call(method: string, input: unknown, signal?: AbortSignal): Promise<unknown>;
  log(level: string, text: string): void;
}
