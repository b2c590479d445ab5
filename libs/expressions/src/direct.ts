import { toValue, TypeGuards, type Value } from 'liquidjs';
import { vaultFilters, type BoundFilter, type RandomInt } from './filters/index.ts';
import type { Json } from './json.ts';

type Scope = Readonly<Record<string, Json>>;
type Key = string | number;
/** Evaluates one output without the engine. */
export type Direct = (scope: Scope, random: RandomInt) => Json;

/** The same rules as the engine's `readProperty`, for own properties of JSON values. */
function readProperty(value: Json | undefined, key: Key): Json | undefined {
  if (value === null || value === undefined) return value;
  if (Array.isArray(value)) {
    if (typeof key === 'number') return value[key < 0 ? value.length + key : key];
    if (key === 'first') return value[0];
    if (key === 'last') return value[value.length - 1];
  }
  if (typeof value === 'object' || typeof value === 'string') {
    const holder = Object(value) as Record<Key, Json>;
    if (Object.hasOwn(holder, key)) return holder[key];
    if (key === 'size') return typeof value === 'string' ? value.length : Object.keys(value).length;
  }
  return undefined;
}

function literalContent(token: object): unknown {
  return 'content' in token ? toValue(token.content) : undefined;
}

/** The keys of a plain path such as `data.number` or `data['a'][0]`; undefined for anything that is computed. */
function staticPath(value: Value): readonly Key[] | undefined {
  const [token, ...others] = value.initial.postfix;
  if (others.length > 0 || !TypeGuards.isPropertyAccessToken(token) || token.variable !== undefined)
    return undefined;
  const keys = token.props.map(literalContent);
  return keys.every((key) => typeof key === 'string' || typeof key === 'number') ? keys : undefined;
}

type FilterArguments = Value['filters'][number]['args'];

/** The values of a filter's arguments when all are literals. */
export function literalArguments(args: FilterArguments): readonly unknown[] | undefined {
  const isLiteral = args.every((arg) => !Array.isArray(arg) && 'content' in arg);
  return isLiteral ? args.map(literalContent) : undefined;
}

function boundFilters(value: Value): readonly BoundFilter[] | undefined {
  const bound: BoundFilter[] = [];
  for (const { name, args } of value.filters) {
    const filter = vaultFilters.get(name);
    const literals = literalArguments(args);
    if (filter === undefined || literals === undefined) return undefined;
    bound.push(filter.bind(literals));
  }
  return bound;
}

/**
 * The short cut for the common form — a path through the bindings and filters of ours with literal arguments —, which masks
 * evaluate on every read: no context, no generators, no clock. Undefined when the engine is needed.
 */
export function compileDirect(value: Value): Direct | undefined {
  const path = staticPath(value);
  const filters = path && boundFilters(value);
  if (path === undefined || filters === undefined) return undefined;
  const [root, ...keys] = path;
  if (typeof root !== 'string') return undefined;
  return (scope, random) => {
    let result: Json | undefined = Object.hasOwn(scope, root) ? scope[root] : undefined;
    for (const key of keys) result = readProperty(result, key);
    let filtered: Json = result ?? null;
    for (const filter of filters) filtered = filter(filtered, random);
    return filtered;
  };
}
