import { isDeepStrictEqual } from 'node:util';
import { authorOf, descriptions, type TokenContent } from '@token-vault/contracts';
import type { RequestContext } from '@token-vault/operations';
import { randomUUID } from 'node:crypto';
import { isDataHidden, type PatchAttempt } from './patch-attempt.ts';
import { mergeMask, replace } from './patched-fields.ts';
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

/**
 * Whether the caller moves the token, with other data, and does not see the data on both sides. Descriptions from where it was may be of a caller
 * that saw the data only there.
 */
const movesWithoutSight = (attempt: PatchAttempt): boolean =>
  !seesData(attempt) && !isDeepStrictEqual(attempt.target, attempt.details.content.containers);

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
function ends(field: Field, attempt: PatchAttempt): boolean {
  const { details, patch, context } = attempt;
  const setBy = details.content.set_without_sight?.[field];
  const isKept = patch.data === undefined || isSaidWhole(field, attempt);
  return setBy !== undefined && setBy !== setterOf(context) && !isKept;
}

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
function flagBefore({ details: { content }, patch, context }: PatchAttempt): boolean | undefined {
  const setBy = content.set_without_sight?.fingerprint_expression;
  const isSaid = patch.data !== undefined || patch.fingerprint_expression !== undefined;
  const isEnded = isSaid && setBy !== undefined && setBy !== setterOf(context);
  return isEnded ? false : content.deduplicate_token;
}

/** Whether tokens of equal data are looked for after the patch. Undefined: the setting of the tenant decides. */
export const deduplicationAfter = (attempt: PatchAttempt): boolean | undefined =>
  replace(flagBefore(attempt), attempt.patch.deduplicate_token);

/** The patch takes the flag on, or leaves the decision to the setting of the tenant. */
function looksForMore(attempt: PatchAttempt): boolean {
  const after = deduplicationAfter(attempt);
  return after !== false && after !== flagBefore(attempt);
}

/** Whether the patch sets the field to another value. */
function sets(field: Field, attempt: PatchAttempt): boolean {
  const isGiven = attempt.patch[field] !== undefined;
  if (isGiven && (ends(field, attempt) || isChanged(field, attempt))) return true;
  return field === 'fingerprint_expression' && looksForMore(attempt);
}

/** The fields that the patch would change. They are compared with the stored ones, so that a client may send the token back unchanged. */
export const changedDescriptions = (attempt: PatchAttempt): Field[] =>
  descriptions.filter((field) => isChanged(field, attempt));

/**
 * After the patch, the id of the caller that set the field without seeing the data. Undefined when a caller that sees the data set the
 * whole field again, or together with data. A field that such a caller sends back unchanged keeps its id.
 */
function setterAfter(
  field: Field,
  attempt: PatchAttempt,
  { isSet, before }: { readonly isSet: boolean; readonly before: string | undefined },
): string | undefined {
  const { patch, context } = attempt;
  if (!seesData(attempt)) return isSet || movesWithoutSight(attempt) ? setterOf(context) : before;
  const isWhole = isSaidWhole(field, attempt);
  return isWhole && (isSet || patch.data !== undefined) ? undefined : before;
}

/** After the patch, the ids of the callers that set fields without seeing the data. */
export function setWithoutSightAfter(attempt: PatchAttempt): Pick<Described, 'set_without_sight'> {
  const before = attempt.details.content.set_without_sight;
  const entries = descriptions.flatMap((field) => {
    const setBy = setterAfter(field, attempt, {
      isSet: sets(field, attempt),
      before: ends(field, attempt) ? undefined : before?.[field],
    });
    return setBy === undefined ? [] : [[field, setBy] as const];
  });
  return entries.length === 0 ? {} : { set_without_sight: Object.fromEntries(entries) };
}
