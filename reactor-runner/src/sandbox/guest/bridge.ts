/**
 * The only way out of the isolate. Arguments are always template literals: an argument that is not a primitive string
 * would be serialised by the host side with guest getters running.
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

// Captured before any code of a tenant runs, so that patched globals have no say in what the host is told.
export const { stringify, parse } = JSON;
export const CompileFunction = Function;
export const { apply, ownKeys, getOwnPropertyDescriptor } = Reflect;
export const asString = String;
export const BaseError = Error;
export const BaseRangeError = RangeError;
export const isArray = Array.isArray;
export const NativePromise = Promise;

/** What a chunk of the runtime may use besides the guest's globals. */
export interface Internal {
  /** A host operation answered at once, in JSON; throws what the host reports. */
  sync(operation: string, input: unknown): unknown;
  /** A host call answered later, in JSON. */
  call(method: string, input: unknown, signal?: AbortSignal): Promise<unknown>;
  log(level: string, text: string): void;
}
