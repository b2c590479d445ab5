import { seesMoreAfterMove } from '@token-vault/access';
import { descriptions, entityTypeOfToken, FieldForbiddenError } from '@token-vault/contracts';
import type { TokenDetails } from '@token-vault/tokens';
import {
  changedDescriptions,
  changesSalt,
  describedAfter,
  describedBefore,
  type Described,
} from './descriptions.ts';
import {
  isDataBroughtWhole,
  isDataHidden,
  isMoved,
  readsStoredData,
  type PatchAttempt,
} from './patch-attempt.ts';
import { effectOfPatch, expressionsIn } from './patch-effect.ts';

/** Whether the patch evaluates an expression again over stored data that the caller did not send. */
export function tellsOfStoredData(attempt: PatchAttempt): boolean {
  if (!readsStoredData(attempt)) return false;
  const { patch } = attempt;
  const { data, mask, search_indexes: indexes, fingerprint_expression: expression } = patch;
  if (data !== undefined || expression !== undefined || patch.deduplicate_token === true) return true;
  if ((mask !== undefined && mask !== null) || (indexes ?? []).length > 0) return true;
  if (patch.metadata === undefined) return false;
  return expressionsOf(describedBefore(attempt)).some((each) => {
    const effect = effectOfPatch(each, patch);
    return effect.changesMetadata && effect.readsHidden;
  });
}

/**
 * A caller that may not see the data may not change what others see of it, nor the values computed from it (rules.md
 * §5, ADR 18). @throws FieldForbiddenError
 */
export function refuseUseOfHiddenData(attempt: PatchAttempt): void {
  if (changesSalt(attempt))
    throw refusalOf(
      attempt.details,
      ['metadata'],
      'the fingerprint of the token reads it, and may do so with data that the caller may not see',
    );
  if (isDataBroughtWhole(attempt.details.type, attempt.patch.data)) return;
  if (isDataHidden(attempt)) {
    const changed = changedFields(attempt);
    if (changed.length > 0) {
      throw refusalOf(
        attempt.details,
        changed,
        'needs token:update by a rule that reveals the token, or data given whole',
      );
    }
    refuseMixtures(attempt);
  } else refuseWideningMove(attempt);
}

/** The token was found, so the log names it. */
const refusalOf = ({ id, type }: TokenDetails, fields: readonly string[], reason: string): Error =>
  new FieldForbiddenError(fields, reason, { type: entityTypeOfToken(type), id });

function changedFields(attempt: PatchAttempt): string[] {
  const { patch } = attempt;
  return [
    ...changedDescriptions(attempt),
    ...(isMoved(attempt) ? ['containers'] : []),
    // The flag searches for a token of equal data, and may make the fingerprint by which other writers find this one. So may the setting of the
    // tenant, which decides without the flag.
    ...(patch.deduplicate_token === true || patch.deduplicate_token === null ? ['deduplicate_token'] : []),
  ];
}

/** The new container needs the same rights as the old one, and may not show the caller more (rules.md §5). */
function refuseWideningMove(attempt: PatchAttempt): void {
  const { details, target, targetTransform, context } = attempt;
  const { id, content } = details;
  if (!isMoved(attempt)) return;
  if (targetTransform !== 'reveal') {
    throw refusalOf(
      attempt.details,
      ['containers'],
      'needs token:update by a rule that reveals tokens of the new container',
    );
  }
  const before = { id, containers: content.containers };
  if (seesMoreAfterMove(context.principal, before, { id, containers: target })) {
    throw refusalOf(
      attempt.details,
      ['containers'],
      'would show the caller more of the token than it may see now',
    );
  }
}

/**
 * Refuses an expression that reads both patched and hidden data. It would show the caller, or other readers, values
 * that the caller chose: when a property that served as salt is removed, the fingerprint can be guessed.
 */
function refuseMixtures(attempt: PatchAttempt): void {
  const { patch } = attempt;
  if (patch.data === undefined && patch.metadata === undefined) return;
  for (const expression of expressionsOf(describedAfter(attempt))) {
    const effect = effectOfPatch(expression, patch);
    if (effect.readsHidden && (effect.changesData || effect.changesMetadata)) {
      const field = effect.changesData ? 'data' : 'metadata';
      throw refusalOf(
        attempt.details,
        [field],
        'an expression of the token reads it together with data that the caller may not see',
      );
    }
  }
}

const expressionsOf = (described: Described): string[] =>
  descriptions.flatMap((field) => expressionsIn(described[field]));
