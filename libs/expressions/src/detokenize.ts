import { compileExpression, type Compiled } from './compile.ts';
import { evaluateIn, startEvaluation } from './evaluate.ts';
import { ExpressionEvaluationError, ExpressionSyntaxError, nameField } from './errors.ts';
import { fieldPath, type Key } from './field-path.ts';
import { setOwn, type Json } from './json.ts';
import { limits } from './limits.ts';
import { outputText } from './output-text.ts';
import { Room } from './room.ts';
import { scanArgument, type TokenReference } from './reference-scanner.ts';

/** The tokens that reactor arguments mention; each id once, in order of appearance. */
export interface TokenReferences {
  readonly ids: readonly string[];
  /** Those of `ids` of which the whole token is needed, not only its data. */
  readonly wholeTokenIds: readonly string[];
}

/** What `substituteTokens` knows of one token: its data, and the token as an API answer would show it, data included. */
export interface DetokenizedToken {
  readonly data: Json;
  readonly token: Json;
}

/**
 * Finds the token references of reactor arguments and checks their syntax, filters included, so that an invocation is
 * refused before anything is opened. Object keys are never expressions.
 * @throws {ExpressionSyntaxError} with the path of the argument, such as `args.card.number`.
 */
export function findTokenReferences(args: Json): TokenReferences {
  const ids = new Set<string>();
  const wholeTokenIds = new Set<string>();
  mapStrings(args, (text) => {
    if (!text.includes('{{')) return text;
    for (const part of scanArgument(text)) {
      if (typeof part === 'string') continue;
      compileFilters(part);
      ids.add(part.id);
      if (part.isWhole) wholeTokenIds.add(part.id);
    }
    return text;
  });
  return { ids: [...ids], wholeTokenIds: [...wholeTokenIds] };
}

/**
 * Replaces every reference by what its filters make of the token. A string that is exactly one `{{ … }}` becomes the value
 * in its JSON type, otherwise the values are concatenated with the text. What is put in is never looked at again: data that
 * holds `{{ … }}` stays text.
 * @throws {ExpressionSyntaxError} {ExpressionEvaluationError} with the path of the argument; the latter also when `lookup`
 * knows no such token, or the result would exceed `limits.substituted`.
 */
export function substituteTokens(args: Json, lookup: (id: string) => DetokenizedToken | undefined): Json {
  const deadline = performance.now() + limits.substituteMs;
  const room = new Room(limits.substituted);
  const admit = (value: Json): Json => {
    if (room.admits(value)) return value;
    throw new ExpressionEvaluationError('The detokenized arguments are too large.');
  };
  return mapStrings(args, (text) => {
    if (!text.includes('{{')) return text;
    const parts = scanArgument(text);
    const values = parts.map((part) =>
      typeof part === 'string' ? part : admit(resolve(part, lookup, deadline)),
    );
    const [only] = values;
    return values.length === 1 && only !== undefined ? only : values.map(outputText).join('');
  });
}

function resolve(
  reference: TokenReference,
  lookup: (id: string) => DetokenizedToken | undefined,
  deadline: number,
): Json {
  const found = lookup(reference.id);
  if (found === undefined) throw new ExpressionEvaluationError('A token is not found.');
  const value = reference.isWhole ? found.token : found.data;
  const filters = compileFilters(reference);
  return filters === undefined ? value : evaluateIn(filters, startEvaluation({ data: value }, {}, deadline));
}

/** The filters of a reference, as an expression over `data`; undefined without filters. */
function compileFilters({ filters, position }: TokenReference): Compiled | undefined {
  if (filters === '') return undefined;
  const compiled = compileExpression(`{{ data | ${filters} }}`);
  // Should Liquid see where the filters end otherwise than the scanner did, the rest must not become a template.
  if (compiled.kind === 'direct' || compiled.kind === 'value') return compiled;
  throw new ExpressionSyntaxError('The filters cannot be parsed.', position);
}

/** A copy with every string value mapped. Errors name the path of the string under way. */
function mapStrings(args: Json, map: (text: string) => Json): Json {
  const path: Key[] = [];
  const at = (key: Key, value: Json): Json => {
    path.push(key);
    const mapped = visit(value);
    path.pop();
    return mapped;
  };
  const visit = (value: Json): Json => {
    if (typeof value === 'string') return map(value);
    if (typeof value !== 'object' || value === null) return value;
    if (path.length >= limits.depth)
      throw new ExpressionSyntaxError(`Arguments must be at most ${limits.depth} levels deep.`);
    if (Array.isArray(value)) return value.map((item, index) => at(index, item));
    const copy: Record<string, Json> = {};
    for (const [key, item] of Object.entries(value)) setOwn(copy, key, at(key, item));
    return copy;
  };
  try {
    return visit(args);
  } catch (error) {
    throw nameField(error, fieldPath('args', path));
  }
}
