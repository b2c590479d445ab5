import { compileExpression } from './compile.ts';
import { evaluate, type Bindings, type EvaluationOptions } from './evaluate.ts';
import { ExpressionEvaluationError, inField } from './errors.ts';
import { isTokenId } from './token-id.ts';
import type { Json } from './json.ts';

/**
 * The values to index, one for each expression, in order; numbers and booleans as text.
 * @throws {ExpressionSyntaxError} {ExpressionEvaluationError} with field `search_indexes[i]`, also when the value is null,
 * empty, an object or an array.
 */
export function evaluateSearchIndexes(expressions: readonly string[], data: Json): string[] {
  return expressions.map((expression, index) =>
    inField(`search_indexes[${index}]`, () => textOf(evaluate(compileExpression(expression), { data }))),
  );
}

/**
 * The text that is fingerprinted: what the expression gives, an object or array as compact JSON.
 * @throws {ExpressionSyntaxError} {ExpressionEvaluationError} with field `fingerprint_expression`, also when the value is null
 * or empty: tokens without a value would all be duplicates of each other.
 */
export function evaluateFingerprint(expression: string, data: Json, metadata?: Json): string {
  return inField('fingerprint_expression', () => {
    const bindings: Bindings = metadata === undefined ? { data } : { data, metadata };
    const value = evaluate(compileExpression(expression), bindings);
    return textOf(typeof value === 'object' && value !== null ? JSON.stringify(value) : value);
  });
}

/**
 * The id of a token to be created, from an expression over its data or a literal text.
 * @throws {ExpressionSyntaxError} {ExpressionEvaluationError} with field `id`, also when the result is no valid id.
 */
export function evaluateId(expression: string, data: Json, options?: EvaluationOptions): string {
  return inField('id', () => {
    const id = textOf(evaluate(compileExpression(expression), { data }, options));
    if (!isTokenId(id))
      throw new ExpressionEvaluationError(
        'An id must have 3 to 400 characters, none of them # / \\ + ? [ ] | & = % < > { } ^.',
      );
    return id;
  });
}

function textOf(value: Json): string {
  if (value === null || value === '')
    throw new ExpressionEvaluationError('The expression must give a value.');
  if (typeof value === 'object')
    throw new ExpressionEvaluationError('The expression must give one value, not an object or array.');
  return String(value);
}
