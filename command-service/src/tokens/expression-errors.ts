import { ValidationError, type Json } from '@token-vault/contracts';
import { secret, type Secret } from '@token-vault/crypto';
import {
  checkMask,
  ExpressionEvaluationError,
  ExpressionSyntaxError,
  type RequestExpressions,
  type SourcePosition,
} from '@token-vault/expressions';

/** `search_indexes[0]` → `search_indexes.0`, the form of paths in problems. */
export const dotted = (field: string): string => field.replaceAll(/\[(\d+)\]/g, '.$1');

const withPosition = (message: string, position: SourcePosition | undefined): string =>
  position ? `${message.replace(/\.$/, '')} (line ${position.line}, column ${position.column}).` : message;

/** 400: an expression has a correct syntax and failed on data, so the error tells of the data. */
export class EvaluationFailedError extends ValidationError {}

/** Turns an error of an expression into a 400 that names its field. Other errors stay as they are. */
export function asRefusal(error: unknown): unknown {
  if (error instanceof ExpressionSyntaxError)
    return ValidationError.of(
      dotted(error.field ?? 'expression'),
      withPosition(error.message, error.position),
    );
  if (error instanceof ExpressionEvaluationError)
    return new EvaluationFailedError({ [dotted(error.field ?? 'expression')]: [error.message] });
  return error;
}

/** Runs `work`. An error of an expression becomes a 400 that names its field. */
export async function refuseBadExpressions<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw asRefusal(error);
  }
}

const maskLimitBytes = 512 * 1024;

/**
 * A mask must parse, and must work on the given data within the time that a request has. A 400 now is better than a
 * read that shows nothing. Gives what the mask shows of the data.
 */
export async function refuseBadMask(
  expressions: RequestExpressions,
  mask: Json | undefined,
  data: Secret<Json>,
): Promise<Secret<Json> | undefined> {
  if (mask === undefined) return undefined;
  // Without this check a mask could grow by merging, patch by patch.
  if (Buffer.byteLength(JSON.stringify(mask)) > maskLimitBytes)
    throw ValidationError.of('mask', 'must be at most 512 KiB as JSON');
  const errors: Record<string, string[]> = {};
  const { issues, shown } = await checkMask(expressions, mask, data.expose());
  for (const { field, message, position } of issues)
    (errors[dotted(field)] ??= []).push(withPosition(message, position));
  if (issues.some(({ kind }) => kind === 'evaluation')) throw new EvaluationFailedError(errors);
  if (issues.length > 0) throw new ValidationError(errors);
  return shown === undefined ? undefined : secret(shown);
}
