import { isDeepStrictEqual } from 'node:util';
import { seesMoreAfterMove } from '@token-vault/access';
import {
  entityTypeOfToken,
  FieldForbiddenError,
  type Json,
  type PatchTokenBody,
  type TokenContent,
  type TokenType,
  type Transform,
} from '@token-vault/contracts';
import type { RequestContext } from '@token-vault/service-kit';
import { fieldsOfShape } from './types/data-shapes.ts';
import { lookOfPatch, type Look } from './patch-look.ts';
import { mergeMask, replace } from './patched-fields.ts';
import type { TokenDetails } from './state.ts';

/** Who patches what: `transform` is how token:update shows the caller the token as it is, `target` where it will be. */
export interface PatchAttempt {
  readonly details: TokenDetails;
  readonly patch: PatchTokenBody;
  readonly context: RequestContext;
  readonly target: readonly string[];
  readonly transform: Transform;
  readonly targetTransform: Transform;
}

function isObject(value: Json | undefined): value is Record<string, Json> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Whether nothing of the stored data survives the patch, whatever that data is. A merge into an object of unknown properties never
 * tells, and looking at the data would tell the caller about it.
 */
export function isDataBroughtWhole(type: TokenType, data: Json | undefined): boolean {
  if (data === undefined) return false;
  if (!isObject(data)) return true;
  const fields = fieldsOfShape(type);
  return fields !== undefined && fields.every((field) => Object.hasOwn(data, field));
}

/** The caller neither sees the data that is stored nor brings its own: what it may do must not depend on that data. */
export const isDataHidden = ({ details, patch, transform }: PatchAttempt): boolean =>
  transform !== 'reveal' && !isDataBroughtWhole(details.type, patch.data);

/**
 * rules.md §5 (ADR 18): what others see of data, or what is computed from it, is not for those to change who may not see the
 * data. @throws FieldForbiddenError
 */
export function refuseUseOfHiddenData(attempt: PatchAttempt): void {
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

/** Compared with what is stored, so that a client that sends the token back as it is changes nothing. */
function changedFields({ details: { content }, patch, target }: PatchAttempt): string[] {
  const { search_indexes: indexes = [], fingerprint_expression: expression } = content;
  const isChanged = {
    mask: !isDeepStrictEqual(mergeMask(content.mask, patch.mask), content.mask),
    search_indexes: !isDeepStrictEqual(replace(indexes, patch.search_indexes) ?? [], indexes),
    fingerprint_expression: replace(expression, patch.fingerprint_expression) !== expression,
    containers: !isDeepStrictEqual(target, content.containers),
    // Looks for a token of equal data, and may make the fingerprint by which others find this one.
    deduplicate_token: patch.deduplicate_token === true,
  };
  return Object.entries(isChanged).flatMap(([field, is]) => (is ? [field] : []));
}

/** Rights in the new container: as in the old one, and no more to see (rules.md §5). */
function refuseWideningMove(attempt: PatchAttempt): void {
  const { details, target, targetTransform, context } = attempt;
  const { id, content } = details;
  if (isDeepStrictEqual(target, content.containers)) return;
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
 * An expression that reads both what the patch changes and what stays hidden would give the caller, or other readers, values of
 * its choosing: a property that was salt, removed, leaves a guessable fingerprint.
 */
function refuseMixtures(attempt: PatchAttempt): void {
  const {
    details: { content },
    patch,
  } = attempt;
  if (patch.data === undefined && patch.metadata === undefined) return;
  for (const expression of expressionsOf(content)) {
    const look: Look = lookOfPatch(expression, patch);
    if (look.readsHidden && (look.changesData || look.changesMetadata)) {
      const field = look.changesData ? 'data' : 'metadata';
      throw refusalOf(
        attempt.details,
        [field],
        'an expression of the token reads it together with data that the caller may not see',
      );
    }
  }
}

function expressionsOf({
  mask,
  search_indexes: indexes = [],
  fingerprint_expression: own,
}: TokenContent): string[] {
  return [...textsOf(mask), ...indexes, ...(own === undefined ? [] : [own])];
}

function textsOf(mask: Json | undefined): string[] {
  if (typeof mask === 'string') return [mask];
  if (typeof mask !== 'object' || mask === null) return [];
  return Object.values(mask).flatMap(textsOf);
}
