import { Output, toValue, TypeGuards, type Template, type Value } from 'liquidjs';
import { vaultFilters } from './filters/index.ts';
import { standardFilter, weightOf } from './filters/direct-filters.ts';
import type { Json } from './json.ts';
import { outputText } from './output-text.ts';
import type { Evaluation } from './evaluation.ts';

type Key = string | number;
/** A name that is bound, and the properties that lead to the value. */
type Path = readonly [root: string, ...keys: Key[]];

/** An expression that needs the engine for some data only. */
export interface Direct {
  /** All that the expression reads, also in the engine. */
  readonly paths: readonly Path[];
  /** Undefined when this data needs the engine. */
  readonly evaluate: (evaluation: Evaluation) => Json | undefined;
}
/** A filter with its arguments. `apply` returns undefined when the value needs the engine. */
interface Step {
  /** Steps for each character or node of the value. */
  readonly weight: number;
  readonly apply: (value: Json, evaluation: Evaluation) => Json | undefined;
}

/** Maximum number of filters of a value on the short cut; more are left to the engine. */
const maxFilters = 4;
/** Maximum number of outputs and of texts between them. */
const maxParts = 10;

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

/** The keys of a plain path such as `data.number` or `data['a'][0]`; undefined for a computed path. */
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

function toStep(name: string, literals: readonly unknown[]): Step | undefined {
  const filter = vaultFilters.get(name);
  if (filter === undefined) {
    const change = standardFilter(name, literals);
    return change && { weight: 1, apply: (value) => (typeof value === 'string' ? change(value) : undefined) };
  }
  const weight = weightOf(name, literals);
  if (weight === undefined) return undefined;
  const bound = filter.bind(literals);
  return { weight, apply: (value, { random }) => bound(value, random) };
}

function compileValue(value: Value): Direct | undefined {
  const path = staticPath(value);
  const [root, ...keys] = path ?? [];
  if (typeof root !== 'string' || value.filters.length > maxFilters) return undefined;
  const steps: Step[] = [];
  for (const { name, args } of value.filters) {
    const literals = literalArguments(args);
    const step = literals && toStep(name, literals);
    if (step === undefined) return undefined;
    steps.push(step);
  }
  const evaluate = (evaluation: Evaluation): Json | undefined => {
    const { scope, meter } = evaluation;
    let found: Json | undefined = Object.hasOwn(scope, root) ? scope[root] : undefined;
    for (const key of keys) found = readProperty(found, key);
    let result: Json | undefined = found ?? null;
    for (const step of steps) {
      meter.spendOn(result, step.weight);
      result = step.apply(result, evaluation);
      if (result === undefined) return undefined;
    }
    return result;
  };
  return { paths: [[root, ...keys]], evaluate };
}

/** Text between outputs, as the engine would write it; undefined for tags and outputs. */
function literalText(template: Template): string | undefined {
  return TypeGuards.isHTMLToken(template.token) ? template.token.getContent() : undefined;
}

function compilePart(template: Template): Direct | undefined {
  const text = literalText(template);
  if (text !== undefined) return { paths: [], evaluate: () => text };
  return template instanceof Output ? compileValue(template.value) : undefined;
}

/**
 * The short cut for the common forms: paths through the bindings with a few of our filters and literal arguments, which masks evaluate on
 * every read. It needs no context, generators or clock. It also joins several of them, and text around them. Undefined when the engine is
 * needed.
 */
export function compileDirect(templates: readonly Template[]): Direct | undefined {
  const [only] = templates;
  if (templates.length === 1 && only instanceof Output) return compileValue(only.value);
  if (templates.length > maxParts) return undefined;
  const parts: Direct[] = [];
  for (const template of templates) {
    const part = compilePart(template);
    if (part === undefined) return undefined;
    parts.push(part);
  }
  const evaluate = (evaluation: Evaluation): Json | undefined => {
    let text = '';
    for (const part of parts) {
      const value = part.evaluate(evaluation);
      if (value === undefined) return undefined;
      if (typeof value === 'object' && value !== null) evaluation.meter.spendOn(value, 1);
      text += outputText(value);
    }
    return text;
  };
  return { paths: parts.flatMap(({ paths }) => paths), evaluate };
}
