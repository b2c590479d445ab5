import { OutcomeUnknownError, type Json } from '@token-vault/contracts';
import {
  ExpressionEvaluationError,
  findTokenReferences,
  substituteTokens,
  type DetokenizedToken,
  type RequestExpressions,
} from '@token-vault/expressions';
import type { GuessAs } from './ports.ts';
import { isPassing, untilAnswered } from './record.ts';

/**
 * Repeats while a store is unavailable. The events have ids computed from the invocation, so a repeat writes them
 * once. The code has run by then, so a failure here does not mean that nothing was done.
 */
export async function tokenized(tokenize: () => Promise<Json>): Promise<Json> {
  try {
    return await untilAnswered(tokenize);
  } catch (error) {
    throw isPassing(error) ? new OutcomeUnknownError('outcome_unknown', { cause: error }) : error;
  }
}

const tellsOfData = (error: unknown): boolean => error instanceof ExpressionEvaluationError;

interface Evaluating {
  readonly expressions: RequestExpressions;
  /** For the invoker, and for the callers of the runs that this one is nested in: the text of an expression may have come from them. */
  readonly guess: GuessAs;
}

/**
 * The arguments with data in place of references. An error of a filter reveals something about the data, so `guess` counts it as a miss.
 * @throws ExpressionEvaluationError, RateLimitedError
 */
export function detokenize(
  args: Json,
  lookup: (tokenId: string) => DetokenizedToken | undefined,
  { expressions, guess }: Evaluating,
): Promise<Json> {
  const substitute = () => substituteTokens(expressions, args, lookup);
  return findTokenReferences(args).hasFilters ? guess(tellsOfData, substitute) : substitute();
}
