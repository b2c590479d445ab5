import { LiquidError } from 'liquidjs';
import { ExpressionSyntaxError } from './errors.ts';

/** What the engine's messages begin with or hold, and what a caller is told instead. The first that matches counts. */
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
 * The error in our words. The engine's messages quote the expression, which may hold what somebody typed into the wrong field;
 * the position says enough.
 */
export function toSyntaxError(error: unknown): ExpressionSyntaxError {
  if (error instanceof ExpressionSyntaxError) return error;
  if (error instanceof RangeError) return new ExpressionSyntaxError('The expression is nested too deeply.');
  if (!LiquidError.is(error)) return new ExpressionSyntaxError(other);
  const [line = 1, column = 1] = error.token.getPosition();
  const message = messages.find(([pattern]) => pattern.test(error.message))?.[1] ?? other;
  return new ExpressionSyntaxError(message, { line, column });
}
