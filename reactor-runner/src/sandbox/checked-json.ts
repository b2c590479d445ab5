import type { Json, JsonObject } from '@token-vault/contracts';

export interface JsonBounds {
  readonly depth: number;
  readonly nodes: number;
}

export class UnacceptableJsonError extends Error {
  override readonly name = 'UnacceptableJsonError';
}

/**
 * Parses JSON written by hostile code. Refuses values deeper or larger than the bounds (later recursive code must not
 * overflow the stack) and any `__proto__` key (a later merge would pollute a prototype). Iterative on purpose.
 */
export function parseChecked(text: string, bounds: JsonBounds): Json {
  let root: Json;
  try {
    root = JSON.parse(text) as Json;
  } catch {
    throw new UnacceptableJsonError('not JSON');
  }
  assertAcceptable(root, bounds);
  return root;
}

function assertAcceptable(root: Json, bounds: JsonBounds): void {
  let level = isNested(root) ? [root] : [];
  let nodes = 1;
  for (let depth = 1; level.length > 0; depth++) {
    const next: Nested[] = [];
    for (const value of level) {
      if (!Array.isArray(value) && Object.hasOwn(value, '__proto__'))
        throw new UnacceptableJsonError('__proto__ key');
      const children = Array.isArray(value) ? value : Object.values(value);
      nodes += children.length;
      if (nodes > bounds.nodes) throw new UnacceptableJsonError('too many values');
      if (children.length > 0 && depth > bounds.depth) throw new UnacceptableJsonError('too deep');
      for (const child of children) if (isNested(child)) next.push(child);
    }
    level = next;
  }
}

type Nested = Json[] | JsonObject;

const isNested = (value: Json): value is Nested => value !== null && typeof value === 'object';
