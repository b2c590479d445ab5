import { isDeepStrictEqual } from 'node:util';
import { changedDescriptions } from './descriptions.ts';
import { isMoved, type PatchAttempt } from './patch-attempt.ts';
import { expiryAfter, mergeMetadata } from './patched-fields.ts';

/**
 * Whether the patch leaves each field as it is. Only fields are compared that the answer of every PATCH shows. A patch that names `data` or
 * `deduplicate_token` is a change, whatever their values are: else the answer would tell a caller that does not see the stored value whether
 * it sent that value (ADR 18).
 * @throws ValidationError
 */
export function changesNothing(attempt: PatchAttempt): boolean {
  const { details, patch, context } = attempt;
  const { metadata, expires_at: expiresAt } = details.content;
  if (patch.data !== undefined || patch.deduplicate_token !== undefined) return false;
  return (
    expiryAfter(expiresAt, patch, context.now) === expiresAt &&
    !isMoved(attempt) &&
    isDeepStrictEqual(mergeMetadata(metadata, patch.metadata), metadata) &&
    changedDescriptions(attempt).length === 0
  );
}
