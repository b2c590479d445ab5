import { ValidationError, type Json } from '@token-vault/contracts';
import type { Secret } from '@token-vault/crypto';
import {
  ExpressionEvaluationError,
  ExpressionSyntaxError,
  renderMask,
  validateMask,
} from '@token-vault/expressions';

/** `search_indexes[0]` → `search_indexes.0`: the spelling of paths in problems. */
const dotted = (field: string): string => field.replaceAll(/\[(\d+)\]/g, '.$1');

/** Runs `work`; an expression that is wrong becomes a 400 that names its field. */
export function refuseBadExpressions<Result>(work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    if (error instanceof ExpressionSyntaxError || error instanceof ExpressionEvaluationError) {
      throw ValidationError.of(dotted(error.field ?? 'expression'), error.message);
    }
    throw error;
  }
}

const maskLimitBytes = 512 * 1024;

/** A mask must parse, and must work on the data it is given with: better a 400 now than a failed read later. */
export function refuseBadMask(mask: Json | undefined, data: Secret<Json>): void {
  if (mask === undefined) return;
  // Merging could otherwise make it grow from patch to patch.
  if (Buffer.byteLength(JSON.stringify(mask)) > maskLimitBytes)
    throw ValidationError.of('mask', 'must be at most 512 KiB as JSON');
  const issues = validateMask(mask);
  if (issues.length === 0) {
    refuseBadExpressions(() => renderMask(mask, data.expose()));
    return;
  }
  const errors: Record<string, string[]> = {};
  for (const issue of issues) (errors[dotted(issue.field)] ??= []).push(issue.message);
  throw new ValidationError(errors);
}
