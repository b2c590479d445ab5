import { Output, Value, type Template } from 'liquidjs';
import { engine } from './engine.ts';
import { compileDirect, literalArguments, type Direct } from './direct.ts';
import { ExpressionSyntaxError, type SourcePosition } from './errors.ts';
import { FilterArgumentError, vaultFilters } from './filters/index.ts';
import { GenerationCache } from './generation-cache.ts';
import { limits } from './limits.ts';
import { toSyntaxError } from './syntax-errors.ts';

/** A parsed expression. Contains no data and may be shared and cached. */
export type Compiled =
  | { readonly kind: 'text'; readonly text: string }
  | {
      readonly kind: 'template';
      readonly templates: readonly Template[];
      /** Set when the expression is exactly one output; its value keeps its type. */
      readonly value: Value | undefined;
      readonly direct: Direct | undefined;
    };

const cache = new GenerationCache<string, Compiled>(limits.cacheGeneration);
const expressionOpening = /\{[{%]/;

/** Whether a text contains an expression, i.e. `{{` or `{%`. */
export function containsExpression(text: string): boolean {
  return expressionOpening.test(text);
}

/** The expression, if it was parsed before and is still in the cache. */
export const compiledOf = (source: string): Compiled | undefined => cache.get(source);

/** Whether nothing has to be parsed. */
export function isCompiled(source: string): boolean {
  return compiledOf(source) !== undefined || !containsExpression(source);
}

/**
 * Parses an expression: text with Liquid outputs and tags. The result is kept in a bounded cache, so repeated calls are cheap.
 * @throws {ExpressionSyntaxError} with the position in `source`.
 */
export function compileExpression(source: string): Compiled {
  const known = cache.get(source);
  if (known !== undefined) return known;
  const compiled = compile(source);
  if (source.length <= limits.cachedSourceLength) cache.set(source, compiled);
  return compiled;
}

function compile(source: string): Compiled {
  if (!containsExpression(source)) return { kind: 'text', text: source };
  if (source.length > limits.sourceLength)
    throw new ExpressionSyntaxError(`An expression must be at most ${limits.sourceLength} characters long.`);
  try {
    const templates = engine.parse(source);
    checkTemplates(templates, { parts: 0 });
    const [only] = templates;
    const value = templates.length === 1 && only instanceof Output ? only.value : undefined;
    return { kind: 'template', templates, value, direct: compileDirect(templates) };
  } catch (error) {
    throw toSyntaxError(error);
  }
}

/** Checks every part, at any depth, for faults that the parser accepts: numbers, emptiness and the arguments of our filters. */
function checkTemplates(templates: readonly Template[], count: { parts: number }): void {
  for (const template of templates) {
    addParts(1, count, template);
    for (const argument of template.arguments?.() ?? []) {
      if (!(argument instanceof Value)) continue;
      addParts(argument.filters.length, count, template);
      checkValue(argument, template);
    }
    const children = template.children?.(false, true).next().value as readonly Template[] | undefined;
    if (children) checkTemplates(children, count);
  }
}

function addParts(parts: number, count: { parts: number }, template: Template): void {
  count.parts += parts;
  if (count.parts > limits.parts)
    fail(`An expression must have at most ${limits.parts} outputs, tags and filters.`, template);
}

function checkValue(value: Value, template: Template): void {
  if (template instanceof Output && !value.initial.valid())
    fail('An expression must not be empty.', template);
  if (value.filters.length > limits.filters)
    fail(`A value must have at most ${limits.filters} filters.`, template);
  for (const filter of value.filters) checkFilter(filter, template);
}

function checkFilter({ name, args }: Value['filters'][number], template: Template): void {
  const filter = vaultFilters.get(name);
  if (filter === undefined) return;
  if (args.some((arg) => Array.isArray(arg))) fail(`Filter ${name}: takes no named arguments.`, template);
  if (args.length > filter.maxArguments) fail(`Filter ${name}: has too many arguments.`, template);
  const literals = literalArguments(args);
  if (literals === undefined) return;
  try {
    filter.bind(literals);
  } catch (error) {
    if (error instanceof FilterArgumentError) fail(error.message, template);
    throw error;
  }
}

function fail(message: string, { token }: Template): never {
  const [line = 1, column = 1] = token.getPosition();
  throw new ExpressionSyntaxError(message, { line, column } satisfies SourcePosition);
}
