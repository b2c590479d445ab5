import { ExpressionEvaluationError } from './errors.ts';
import type { Bindings } from './evaluation.ts';
import { isTokenId } from './token-id.ts';
import type { Json } from './json.ts';
import { JobFailedError, toExpressionError, type RequestExpressions } from './request.ts';

/**
 * The values to index, one for each expression, in order; numbers and booleans as text.
 * @throws {ExpressionSyntaxError} {ExpressionEvaluationError} with field `search_indexes[i]`, also when the value is null,
 * empty, an object or an array.
 */
export async function evaluateSearchIndexes(
  expressions: RequestExpressions,
  sources: readonly string[],
  data: Json,
): Promise<string[]> {
  const fieldOf = (index: number): string => `search_indexes[${index}]`;
  const values = await evaluateAll(expressions, sources, { data }, fieldOf);
  return values.map((value, index) => textOf(value, fieldOf(index)));
}

/**
 * The text that is fingerprinted: the value of the expression, an object or array as compact JSON. Undefined when that is null or empty:
 * otherwise all tokens without a value would be duplicates of each other.
 * @throws {ExpressionSyntaxError} {ExpressionEvaluationError} with field `fingerprint_expression`
 */
export async function evaluateFingerprint(
  expressions: RequestExpressions,
  source: string,
  bindings: Bindings,
): Promise<string | undefined> {
  const [value = null] = await evaluateAll(expressions, [source], bindings, () => fingerprintField);
  if (value === null || value === '') return undefined;
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

const fingerprintField = 'fingerprint_expression';

/** The error when a requested fingerprint has no value. */
export function missingFingerprint(): ExpressionEvaluationError {
  return new ExpressionEvaluationError(noValue, fingerprintField);
}

/**
 * The id of a new token, from an expression over its data or a literal text.
 * @throws {ExpressionSyntaxError} {ExpressionEvaluationError} with field `id`, also when the result is not a valid id.
 */
export async function evaluateId(
  expressions: RequestExpressions,
  source: string,
  data: Json,
): Promise<string> {
  const [value = null] = await evaluateAll(expressions, [source], { data }, () => 'id');
  const id = textOf(value, 'id');
  if (isTokenId(id)) return id;
  throw new ExpressionEvaluationError(
    'An id must have 3 to 400 characters, none of them # / \\ + ? [ ] | & = % < > { } ^.',
    'id',
  );
}

async function evaluateAll(
  expressions: RequestExpressions,
  sources: readonly string[],
  bindings: Bindings,
  fieldOf: (index: number) => string,
): Promise<readonly Json[]> {
  try {
    return await expressions.evaluate(sources, bindings);
  } catch (error) {
    const [first] = error instanceof JobFailedError ? error.failures : [];
    if (first === undefined) throw error;
    throw toExpressionError(first, fieldOf(first.index));
  }
}

const noValue = 'The expression must give a value.';

function textOf(value: Json, field: string): string {
  if (value === null || value === '') throw new ExpressionEvaluationError(noValue, field);
  if (typeof value === 'object')
    throw new ExpressionEvaluationError('The expression must give one value, not an object or array.', field);
  return String(value);
}
