import { isDeepStrictEqual } from 'node:util';
import {
  authorOf,
  descriptions,
  setterOfText,
  textOfSetter,
  type DescriptionSetter,
  type TokenContent,
} from '@token-vault/contracts';
import type { RequestContext } from '@token-vault/operations';
import { randomUUID } from 'node:crypto';
import { isDataHidden, type PatchAttempt } from './patch-attempt.ts';
import { effectOfPatch, expressionsIn } from './patch-effect.ts';
import { mergeMask, mergeMetadata, replace } from './patched-fields.ts';
import { typeDefaults } from '@token-vault/tokens';

/** The expressions of a token: its mask, and the values that are computed from its data. */
export type Described = Pick<TokenContent, (typeof descriptions)[number] | 'set_without_sight'>;

type Field = (typeof descriptions)[number];

const noDefaults = { mask: undefined, searchIndexes: [] };

/**
 * The id that is stored with expressions which this caller sets without seeing the data. A session has an id other than its application,
 * which may see more. Code that a console session runs does not know the session, so each of its writes gets an id of its own.
 */
function setterOf({ principal, metadata }: RequestContext): string {
  if (principal.actor.kind === 'session') return principal.actor.id;
  return principal.shownAtMost === undefined ? authorOf(metadata) : `console:${randomUUID()}`;
}

/**
 * For a new token. Its creator knows this data. But a caller of the console must not be shown data that others write later (ADR 38), so its
 * expressions end with such a write. Those of other creators stay.
 */
export function setWithoutSightAtFirst(context: RequestContext): Pick<Described, 'set_without_sight'> {
  if (context.principal.shownAtMost === undefined) return {};
  const setter = setterOf(context);
  return { set_without_sight: Object.fromEntries(descriptions.map((field) => [field, setter])) };
}

/**
 * Whether the caller sees the data that its descriptions apply to: those of the token as it is, and those that others write where the token is
 * afterwards.
 */
const seesData = ({ transform, targetTransform }: PatchAttempt): boolean =>
  transform === 'reveal' && targetTransform === 'reveal';

const isMoved = ({ details, target }: PatchAttempt): boolean =>
  !isDeepStrictEqual(target, details.content.containers);

/** Undefined: the creator of the token set the field, or a caller that saw the data in a release that did not store such callers. */
function setterBefore(field: Field, attempt: PatchAttempt): DescriptionSetter | undefined {
  const stored = attempt.details.content.set_without_sight?.[field];
  if (stored === undefined) return undefined;
  const { id, sees } = setterOfText(stored);
  return { id, sees: sees && !isMoved(attempt) };
}

/** Whether another caller set the field, and does not see the data. */
function isForeign(field: Field, attempt: PatchAttempt): boolean {
  const setter = setterBefore(field, attempt);
  return setter !== undefined && !setter.sees && setter.id !== setterOf(attempt.context);
}

/** Whether the patch replaces the whole field. An object of a mask is merged into the stored one. */
function isSaidWhole(field: Field, { patch }: PatchAttempt): boolean {
  const given = patch[field];
  if (given === undefined) return false;
  return field !== 'mask' || typeof given !== 'object' || given === null || Array.isArray(given);
}

/**
 * Whether the field ends with this patch: another caller set it without seeing the data, and this caller brings other data without giving
 * the whole field.
 */
const ends = (field: Field, attempt: PatchAttempt): boolean =>
  attempt.patch.data !== undefined && !isSaidWhole(field, attempt) && isForeign(field, attempt);

/**
 * The stored fields to which the patch is applied. A field that ends gets the default of the type, if it was set at all. Where a part of the data
 * stays that this caller does not see, it gets none: the default could show more of that part.
 */
export function describedBefore(attempt: PatchAttempt): Described {
  const { type, content } = attempt.details;
  const { mask, search_indexes: indexes = [], fingerprint_expression: expression } = content;
  const defaults = isDataHidden(attempt) ? noDefaults : typeDefaults[type];
  const keptMask = ends('mask', attempt) && mask !== undefined ? defaults.mask : mask;
  const isIndexed = indexes.length > 0;
  const keptIndexes = ends('search_indexes', attempt) && isIndexed ? [...defaults.searchIndexes] : indexes;
  const keptExpression = ends('fingerprint_expression', attempt) ? undefined : expression;
  return {
    ...(keptMask === undefined ? {} : { mask: keptMask }),
    search_indexes: keptIndexes,
    ...(keptExpression === undefined ? {} : { fingerprint_expression: keptExpression }),
  };
}

/** The fields once the patch is applied to them. */
export function describedAfter(attempt: PatchAttempt): Described {
  const { patch } = attempt;
  const before = describedBefore(attempt);
  return {
    mask: mergeMask(before.mask, patch.mask),
    search_indexes: replace(before.search_indexes, patch.search_indexes) ?? [],
    fingerprint_expression: replace(before.fingerprint_expression, patch.fingerprint_expression),
  };
}

function isChanged(field: Field, { details: { content }, patch }: PatchAttempt): boolean {
  switch (field) {
    case 'mask':
      return !isDeepStrictEqual(mergeMask(content.mask, patch.mask), content.mask);
    case 'search_indexes': {
      const { search_indexes: indexes = [] } = content;
      return !isDeepStrictEqual(replace(indexes, patch.search_indexes) ?? [], indexes);
    }
    case 'fingerprint_expression': {
      const { fingerprint_expression: expression } = content;
      return replace(expression, patch.fingerprint_expression) !== expression;
    }
  }
}

/**
 * The stored flag to which the patch is applied. The flag makes the fingerprint, and so may the setting of the tenant when there is no flag. So
 * a flag that a caller changed without sight is named with the fingerprint's expression, and is off after other data, or another expression, of
 * another caller.
 */
function flagBefore(attempt: PatchAttempt): boolean | undefined {
  const {
    details: { content },
    patch,
  } = attempt;
  const isSaid = patch.data !== undefined || patch.fingerprint_expression !== undefined;
  return isSaid && isForeign('fingerprint_expression', attempt) ? false : content.deduplicate_token;
}

/** Whether tokens of equal data are looked for after the patch. Undefined: the setting of the tenant decides. */
export const deduplicationAfter = (attempt: PatchAttempt): boolean | undefined =>
  replace(flagBefore(attempt), attempt.patch.deduplicate_token);

/** The patch takes the flag on, or leaves the decision to the setting of the tenant. */
function looksForMore(attempt: PatchAttempt): boolean {
  const after = deduplicationAfter(attempt);
  return after !== false && after !== flagBefore(attempt);
}

/** The patch changes metadata that expressions of the field read. */
function readsChangedMetadata(field: Field, attempt: PatchAttempt): boolean {
  const { patch, details } = attempt;
  const { metadata } = details.content;
  if (patch.metadata === undefined || isDeepStrictEqual(mergeMetadata(metadata, patch.metadata), metadata))
    return false;
  const expressions = expressionsIn(describedAfter(attempt)[field]);
  return expressions.some((each) => effectOfPatch(each, patch).changesMetadata);
}

/** Whether the patch sets the field to another value, or decides what its expressions show. */
function sets(field: Field, attempt: PatchAttempt): boolean {
  const isGiven = attempt.patch[field] !== undefined;
  if (isGiven && (ends(field, attempt) || isChanged(field, attempt))) return true;
  if (readsChangedMetadata(field, attempt)) return true;
  return field === 'fingerprint_expression' && looksForMore(attempt);
}

/** The fields that the patch would change. They are compared with the stored ones, so that a client may send the token back unchanged. */
export const changedDescriptions = (attempt: PatchAttempt): Field[] =>
  descriptions.filter((field) => isChanged(field, attempt));

/**
 * After the patch, the caller that set the field. A caller that sees the data and says the whole field together with data takes the field over
 * unchanged. Of a field of two callers the setter is none of them: it ends with the next data of either.
 */
function setterAfter(field: Field, attempt: PatchAttempt): DescriptionSetter | undefined {
  const { patch, context } = attempt;
  const before = ends(field, attempt) ? undefined : setterBefore(field, attempt);
  const isWhole = isSaidWhole(field, attempt);
  const isTakenOver = isWhole && patch.data !== undefined && seesData(attempt);
  if (!isTakenOver && !sets(field, attempt)) return before;
  const caller = { id: setterOf(context), sees: seesData(attempt) };
  if (isWhole || before === undefined || before.id === caller.id) return caller;
  return { id: `several:${randomUUID()}`, sees: before.sees && caller.sees };
}

/** After the patch, the callers that set fields by a PATCH. */
export function setWithoutSightAfter(attempt: PatchAttempt): Pick<Described, 'set_without_sight'> {
  const entries = descriptions.flatMap((field) => {
    const setter = setterAfter(field, attempt);
    return setter ? [[field, textOfSetter(setter)] as const] : [];
  });
  return entries.length === 0 ? {} : { set_without_sight: Object.fromEntries(entries) };
}
