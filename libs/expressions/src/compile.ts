import { LiquidError, Output, Value, type Template } from 'liquidjs';
import { engine } from './engine.ts';
import { compileDirect, literalArguments, type Direct } from './direct.ts';
import { ExpressionSyntaxError, type SourcePosition } from './errors.ts';
import { FilterArgumentError, vaultFilters } from './filters/index.ts';
import { GenerationCache } from './generation-cache.ts';
import { limits } from './limits.ts';

/** A parsed expression. Opaque: give it to `evaluate`. Holds no data and may be shared and kept. */
export type Compiled =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'direct'; readonly direct: Direct }
  | { readonly kind: 'value'; readonly value: Value }
  | { readonly kind: 'template'; readonly templates: Template[] };

const cache = new GenerationCache<string, Compiled>(limits.cacheGeneration);
const expressionOpening = /\{[{%]/;
const maxMessageLength = 200;

/** Whether a text holds an expression, that is `{{` or `{%`. */
export function containsExpression(text: string): boolean {
  return expressionOpening.test(text);
}

/**
 * Parses an expression: text with Liquid outputs and tags. Kept in a bounded cache, so calling it for each use is cheap.
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
    checkTemplates(templates);
    const [only] = templates;
    if (templates.length !== 1 || !(only instanceof Output)) return { kind: 'template', templates };
    const direct = compileDirect(only.value);
    return direct ? { kind: 'direct', direct } : { kind: 'value', value: only.value };
  } catch (error) {
    throw toSyntaxError(error);
  }
}

/** Checks in every output, wherever it is nested, what the parser lets pass: emptiness and the arguments of our filters. */
function checkTemplates(templates: readonly Template[]): void {
  for (const template of templates) {
    for (const argument of template.arguments?.() ?? [])
      if (argument instanceof Value) checkValue(argument, template);
    const children = template.children?.(false, true).next().value as readonly Template[] | undefined;
    if (children) checkTemplates(children);
  }
}

function checkValue(value: Value, template: Template): void {
  const fail = (message: string): never => {
    throw new ExpressionSyntaxError(message, positionOf(template));
  };
  if (template instanceof Output && !value.initial.valid()) fail('An expression must not be empty.');
  for (const { name, args } of value.filters) {
    const filter = vaultFilters.get(name);
    if (filter === undefined) continue;
    if (args.some((arg) => Array.isArray(arg))) fail(`Filter ${name}: takes no named arguments.`);
    if (args.length > filter.maxArguments) fail(`Filter ${name}: has too many arguments.`);
    const literals = literalArguments(args);
    if (literals === undefined) continue;
    try {
      filter.bind(literals);
    } catch (error) {
      if (error instanceof FilterArgumentError) fail(error.message);
      throw error;
    }
  }
}

function positionOf({ token }: { readonly token: Template['token'] }): SourcePosition {
  const [line = 1, column = 1] = token.getPosition();
  return { line, column };
}

/** Keeps the engine's message, which quotes the expression only, without the position it appends. */
function toSyntaxError(error: unknown): ExpressionSyntaxError {
  if (error instanceof ExpressionSyntaxError) return error;
  if (error instanceof RangeError) return new ExpressionSyntaxError('The expression is nested too deeply.');
  if (!LiquidError.is(error)) return new ExpressionSyntaxError('The expression cannot be parsed.');
  const position = positionOf(error);
  const message = error.message.replace(/, line:\d+, col:\d+$/, '').slice(0, maxMessageLength);
  return new ExpressionSyntaxError(message, position);
}
