import { format, inspect as render } from './inspect.ts';

export { format };
export const inspect = Object.assign(
  (value: unknown, options?: number | { depth?: number | null }) =>
    render(value, typeof options === 'object' ? (options.depth ?? 3) : 3),
  { custom: Symbol.for('nodejs.util.inspect.custom'), defaultOptions: {} },
);
export const { TextEncoder, TextDecoder } = globalThis;

type Callback = (error: unknown, value?: unknown) => void;
type AnyFunction = (this: unknown, ...values: unknown[]) => unknown;

const custom = Symbol.for('nodejs.util.promisify.custom');

export const promisify = Object.assign(
  (original: AnyFunction & { readonly [custom]?: AnyFunction }): AnyFunction => {
    if (typeof original !== 'function') throw new TypeError('promisify needs a function');
    const own = original[custom];
    if (own !== undefined) return own;
    return function (...values) {
      return new Promise((resolve, reject) => {
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- whatever the callback reports
        const callback: Callback = (error, value) => (error ? reject(error) : resolve(value));
        original.call(this, ...values, callback);
      });
    };
  },
  { custom },
);

export function callbackify(original: (...values: unknown[]) => Promise<unknown>): AnyFunction {
  return function (...values) {
    const callback = values.pop() as Callback;
    original.apply(this, values).then(
      (value) => queueMicrotask(() => callback(null, value)),
      (error: unknown) => queueMicrotask(() => callback(error ?? new Error('rejected with nothing'))),
    );
  };
}

export function inherits(
  constructor: { prototype: object; super_?: unknown },
  parent: { prototype: object },
): void {
  constructor.super_ = parent;
  Object.setPrototypeOf(constructor.prototype, parent.prototype);
}

export function deprecate<T>(original: T): T {
  return original;
}

export function debuglog(): () => void {
  return () => undefined;
}

export function isDeepStrictEqual(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  if (a instanceof Date) return a.getTime() === (b as Date).getTime();
  if (a instanceof RegExp) return a.source === (b as RegExp).source && a.flags === (b as RegExp).flags;
  if (a instanceof Map) return areEqualMaps(a, b as Map<unknown, unknown>);
  if (a instanceof Set) return areEqualSets(a, b as Set<unknown>);
  const [keys, others] = [Object.keys(a), Object.keys(b)];
  const [left, right] = [a as Record<string, unknown>, b as Record<string, unknown>];
  return (
    keys.length === others.length &&
    keys.every((key) => Object.hasOwn(b, key) && isDeepStrictEqual(left[key], right[key]))
  );
}

function areEqualMaps(a: Map<unknown, unknown>, b: Map<unknown, unknown>): boolean {
  return (
    a.size === b.size && [...a].every(([key, value]) => b.has(key) && isDeepStrictEqual(value, b.get(key)))
  );
}

function areEqualSets(a: Set<unknown>, b: Set<unknown>): boolean {
  const isIn = (value: unknown) => b.has(value) || [...b].some((each) => isDeepStrictEqual(value, each));
  return a.size === b.size && [...a].every(isIn);
}

const tagged = (tag: string) => (value: unknown) =>
  Object.prototype.toString.call(value) === `[object ${tag}]`;

export const types = {
  isDate: tagged('Date'),
  isRegExp: tagged('RegExp'),
  isPromise: (value: unknown) => value instanceof Promise,
  isMap: tagged('Map'),
  isSet: tagged('Set'),
  isNativeError: (value: unknown) => value instanceof Error,
  isUint8Array: (value: unknown) => value instanceof Uint8Array,
  isTypedArray: (value: unknown) => ArrayBuffer.isView(value) && !(value instanceof DataView),
  isArrayBuffer: tagged('ArrayBuffer'),
  isAnyArrayBuffer: tagged('ArrayBuffer'),
  isAsyncFunction: tagged('AsyncFunction'),
  isGeneratorFunction: tagged('GeneratorFunction'),
};
export const { isDate, isRegExp } = types;
export const isArray = Array.isArray;
export const isError = types.isNativeError;
export const isString = (value: unknown) => typeof value === 'string';
export const isFunction = (value: unknown) => typeof value === 'function';
export const isObject = (value: unknown) => typeof value === 'object' && value !== null;
