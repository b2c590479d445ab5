/** A JSON value. Structurally the same type as in the contracts, which this library does not import. Bindings are still never changed. */
export type Json = null | boolean | number | string | Json[] | JsonObject;
export interface JsonObject {
  [key: string]: Json;
}

/**
 * The approximate size of a value as JSON: one for each node plus the characters of strings and keys. A part that is referred to twice
 * counts twice, so a structure that doubles itself is as large as its text. For an object the result is Infinity as soon as `limit` is
 * exceeded, so the function never takes more than `limit` steps.
 */
export function measure(value: unknown, limit: number): number {
  if (typeof value !== 'object' || value === null) return typeof value === 'string' ? value.length + 1 : 1;
  let size = 0;
  const pending: unknown[] = [value];
  while (pending.length > 0) {
    const next = pending.pop();
    size += typeof next === 'string' ? next.length + 1 : 1;
    if (size > limit) return Infinity;
    if (typeof next !== 'object' || next === null) continue;
    if (Array.isArray(next)) {
      if (size + pending.length + next.length > limit) return Infinity;
      for (const item of next) pending.push(item);
    } else {
      for (const [key, item] of Object.entries(next)) {
        size += key.length;
        pending.push(item);
      }
    }
  }
  return size;
}

/** Sets an own property, also for `__proto__`, which a plain assignment would use as the prototype. */
export function setOwn(target: Record<string, Json>, key: string, value: Json): void {
  if (key === '__proto__')
    Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
  else target[key] = value;
}
