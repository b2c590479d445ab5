import { compileExpression } from './compile.ts';
import { ExpressionEvaluationError, ExpressionSyntaxError } from './errors.ts';
import { fieldPath } from './field-path.ts';
import type { Json } from './json.ts';
import { limits } from './limits.ts';
import { mapStrings } from './map-strings.ts';
import { outputText } from './output-text.ts';
import { scanArgument, type TokenReference } from './reference-scanner.ts';
import { JobFailedError, toExpressionError, type RequestExpressions } from './request.ts';
import { OutputBudget } from './output-budget.ts';

/** The tokens that reactor arguments mention, in order of appearance. */
export interface TokenReferences {
  /** Each id once, with the path of the argument that names it first, such as `args.card.number`. */
  readonly tokens: ReadonlyMap<string, string>;
  /**
   * References to a whole token, `token: <id>`, read as the id that they would be had the prefix no meaning, with the path. When
   * there is a token of that id too, it cannot be told which of the two was meant.
   */
  readonly ambiguous: ReadonlyMap<string, string>;
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
  const tokens = new Map<string, string>();
  const ambiguous = new Map<string, string>();
  let filters = 0;
  for (const reference of referencesOf(args)) {
    filters += reference.filters.length;
    if (filters > limits.referenceFilters)
      throw new ExpressionSyntaxError(
        `The filters must be at most ${limits.referenceFilters} characters long together.`,
        undefined,
        'args',
      );
    checkFilters(reference);
    if (!tokens.has(reference.id)) tokens.set(reference.id, reference.field);
    if (reference.isWhole && reference.subject !== undefined)
      ambiguous.set(reference.subject, reference.field);
  }
  return { tokens, ambiguous };
}

/**
 * Replaces every reference by what its filters make of the token. A string that is exactly one `{{ … }}` becomes the value
 * in its JSON type, otherwise the values are concatenated with the text. What is put in is never looked at again: data that
 * holds `{{ … }}` stays text.
 * @throws {ExpressionSyntaxError} {ExpressionEvaluationError} with the path of the argument; the latter also when `lookup`
 * knows no such token, or the result would exceed `limits.substituted`.
 */
export async function substituteTokens(
  expressions: RequestExpressions,
  args: Json,
  lookup: (id: string) => DetokenizedToken | undefined,
): Promise<Json> {
  const values: Json[] = [];
  for (const reference of referencesOf(args)) values.push(await resolve(expressions, reference, lookup));
  if (values.length === 0) return args;
  let next = 0;
  const outputBudget = new OutputBudget(limits.substituted);
  const admit = (value: Json): Json => {
    if (outputBudget.admits(value)) return value;
    throw tooLarge();
  };
  const filled = mapStrings('args', args, (text) => {
    if (!text.includes('{{')) return text;
    const parts = scanArgument(text).map((part) =>
      typeof part === 'string' ? part : admit(values[next++] ?? null),
    );
    const [only] = parts;
    return parts.length === 1 && only !== undefined ? only : parts.map(outputText).join('');
  });
  if (Buffer.byteLength(JSON.stringify(filled)) > limits.substituted) throw tooLarge('args');
  return filled;
}

function tooLarge(field?: string): ExpressionEvaluationError {
  return new ExpressionEvaluationError(
    'The detokenized arguments are too large: they must be at most 1 MiB as JSON.',
    field,
  );
}

interface PlacedReference extends TokenReference {
  readonly field: string;
}

function referencesOf(args: Json): readonly PlacedReference[] {
  const references: PlacedReference[] = [];
  mapStrings('args', args, (text, path) => {
    if (!text.includes('{{')) return text;
    const field = fieldPath('args', path);
    for (const part of scanArgument(text)) if (typeof part !== 'string') references.push({ ...part, field });
    if (references.length > limits.references)
      throw new ExpressionSyntaxError(
        `Arguments must have at most ${limits.references} references to tokens.`,
        undefined,
        'args',
      );
    return text;
  });
  return references;
}

async function resolve(
  expressions: RequestExpressions,
  reference: PlacedReference,
  lookup: (id: string) => DetokenizedToken | undefined,
): Promise<Json> {
  const found = lookup(reference.id);
  if (found === undefined) throw missingToken(reference.id, reference.field);
  const data = reference.isWhole ? found.token : found.data;
  if (reference.filters === '') return data;
  checkFilters(reference);
  try {
    const [value = null] = await expressions.evaluate([sourceOf(reference)], { data });
    return value;
  } catch (error) {
    const [first] = error instanceof JobFailedError ? error.failures : [];
    throw first === undefined ? error : toExpressionError(first, reference.field);
  }
}

/** @param id as the arguments name it: it is told to who wrote them */
export function missingToken(id: string, field: string): ExpressionEvaluationError {
  return new ExpressionEvaluationError(`It names a token that does not exist: ${id}`, field);
}

/** The filters of a reference, as an expression over `data`. */
function sourceOf({ filters }: TokenReference): string {
  return `{{ data | ${filters} }}`;
}

function checkFilters(reference: PlacedReference): void {
  const { filters, position, field } = reference;
  if (filters === '') return;
  try {
    const compiled = compileExpression(sourceOf(reference));
    // Should Liquid see where the filters end otherwise than the scanner did, the rest must not become a template.
    if (compiled.kind === 'template' && compiled.value !== undefined) return;
  } catch (error) {
    if (!(error instanceof ExpressionSyntaxError)) throw error;
    throw new ExpressionSyntaxError(error.message, error.position, field);
  }
  throw new ExpressionSyntaxError('The filters cannot be parsed.', position, field);
}
