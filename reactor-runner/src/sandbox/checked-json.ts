import type { Json } from '@token-vault/contracts';

export interface JsonBounds {
  readonly depth: number;
  readonly nodes: number;
}

export class UnacceptableJsonError extends Error {
  override readonly name = 'UnacceptableJsonError';
}

/**
 * Parses JSON written by hostile code. Refuses values deeper or larger than the bounds (recursion in whoever handles
 * them later must not overflow) and any `__proto__` key (a later merge would pollute a prototype). Iterative on purpose.
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
  let level: Json[] = [root];
  let nodes = 1;
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > bounds.depth) throw new UnacceptableJsonError('too deep');
    const next: Json[] = [];
    for (const value of level) {
      if (value === null || typeof value !== 'object') continue;
      if (!Array.isArray(value) && Object.hasOwn(value, '__proto__'))
        throw new UnacceptableJsonError('__proto__ key');
      for (const child of Array.isArray(value) ? value : Object.values(value)) next.push(child);
    }
    nodes += next.length;
    if (nodes > bounds.nodes) throw new UnacceptableJsonError('too many values');
    level = next;
  }
}
