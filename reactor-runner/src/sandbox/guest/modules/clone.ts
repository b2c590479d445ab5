/** `structuredClone` for the types a reactor meets: plain data, dates, maps, sets, errors, patterns, binary; cycles kept. */
export function structuredClone<T>(value: T): T {
  return clone(value, new Map()) as T;
}

function clone(value: unknown, seen: Map<object, unknown>): unknown {
  if (typeof value === 'function' || typeof value === 'symbol')
    throw new TypeError('The value cannot be cloned');
  if (typeof value !== 'object' || value === null) return value;
  if (seen.has(value)) return seen.get(value);
  const keep = <T>(copy: T): T => {
    seen.set(value, copy);
    return copy;
  };
  if (Array.isArray(value)) {
    const copy = keep(new Array<unknown>(value.length));
    for (const key of Object.keys(value)) copy[Number(key)] = clone(value[Number(key)], seen);
    return copy;
  }
  if (value instanceof Map) {
    const copy = keep(new Map<unknown, unknown>());
    value.forEach((each, key) => copy.set(clone(key, seen), clone(each, seen)));
    return copy;
  }
  if (value instanceof Set) {
    const copy = keep(new Set<unknown>());
    value.forEach((each) => copy.add(clone(each, seen)));
    return copy;
  }
  return keep(cloneLeaf(value)) ?? cloneProperties(value, keep({}), seen);
}

function cloneLeaf(value: object): object | undefined {
  if (value instanceof Date) return new Date(value.getTime());
  if (value instanceof RegExp) return new RegExp(value.source, value.flags);
  if (value instanceof ArrayBuffer) return value.slice(0);
  if (value instanceof DataView)
    return new DataView(value.buffer.slice(value.byteOffset, value.byteOffset + value.byteLength));
  if (ArrayBuffer.isView(value)) return Uint8Array.prototype.slice.call(value);
  if (value instanceof Error) return Object.assign(new Error(value.message), { name: value.name });
  if (value instanceof Promise || value instanceof WeakMap || value instanceof WeakSet)
    throw new TypeError('The value cannot be cloned');
  return value instanceof Number || value instanceof String || value instanceof Boolean
    ? (Object(value.valueOf()) as object)
    : undefined;
}

function cloneProperties(value: object, copy: Record<string, unknown>, seen: Map<object, unknown>): object {
  for (const [key, each] of Object.entries(value)) {
    Object.defineProperty(copy, key, {
      value: clone(each, seen),
      writable: true,
      enumerable: true,
      configurable: true,
    });
  }
  return copy;
}
