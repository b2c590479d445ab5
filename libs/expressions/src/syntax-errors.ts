import { LiquidError } from 'liquidjs';
import { ExpressionSyntaxError } from './errors.ts';

/** The beginning or a part of the engine's message, and the message for the caller. The first match counts. */
const messages: readonly (readonly [RegExp, string])[] = [
  [/^undefined filter/, 'There is no such filter.'],
  [/^tag ".*" not found/s, 'There is no such tag.'],
  [/^output .* not closed/s, 'An output is not closed by }}.'],
  [/^tag .* not closed/s, 'A tag is not closed.'],
  [/^raw .* not closed/s, 'A tag is not closed.'],
  [/^expected filter name/, 'A filter is missing after the |.'],
  [/^expected "\|" before filter/, 'A | is missing before a filter.'],
  [
    /^(illegal|unexpected|duplicated|empty|every line)|(tag|else|elsif) after/,
    'A tag is not written as it must be.',
  ],
  [/invalid range|unbalanced/, 'A range is not written as it must be.'],
];
const other = 'The expression cannot be parsed.';

/**
 * The error with our own message. The engine's messages quote the expression, which may contain data that a user typed into the wrong
 * field. The position is enough.
 */
export function toSyntaxError(error: unknown): ExpressionSyntaxError {
  if (error instanceof ExpressionSyntaxError) return error;
  if (error instanceof RangeError) return new ExpressionSyntaxError('The expression is nested too deeply.');
  if (!LiquidError.is(error)) return new ExpressionSyntaxError(other);
  const [line = 1, column = 1] = error.token.getPosition();
  const message = messages.find(([pattern]) => pattern.test(error.message))?.[1] ?? other;
  return new ExpressionSyntaxError(message, { line, column });
}
