import { isDeepStrictEqual } from 'node:util';
import { authorOf, descriptions, type TokenContent } from '@token-vault/contracts';
import type { RequestContext } from '@token-vault/operations';
import { randomUUID } from 'node:crypto';
import type { PatchAttempt } from './patch-attempt.ts';
import { mergeMask, replace } from './patched-fields.ts';
import { typeDefaults } from '@token-vault/tokens';

/** The expressions of a token: its mask, and the values that are computed from its data. */
export type Described = Pick<TokenContent, (typeof descriptions)[number] | 'set_without_sight'>;

type Field = (typeof descriptions)[number];

/**
 * The id under which expressions are remembered that this caller sets without seeing the data. A session counts apart from its application,
 * which may see more. Code that a console session runs has no id of the session, so its writes count apart from all others.
 */
function setterOf({ principal, metadata }: RequestContext): string {
  if (principal.actor.kind === 'session') return principal.actor.id;
  return principal.shownAtMost === undefined ? authorOf(metadata) : `console:${randomUUID()}`;
}

/**
 * For a new token: its maker knows this data, but a caller of the console must not be shown what others write later (ADR 38), so its
 * expressions end then. Those of other makers stay.
 */
export function setWithoutSightAtFirst(context: RequestContext): Pick<Described, 'set_without_sight'> {
  if (context.principal.shownAtMost === undefined) return {};
  const setter = setterOf(context);
  return { set_without_sight: Object.fromEntries(descriptions.map((field) => [field, setter])) };
}

/** Whether the patch says all of the field. An object of a mask is merged into the stored one. */
function isSaidWhole(field: Field, { patch }: PatchAttempt): boolean {
  const given = patch[field];
  if (given === undefined) return false;
  return field !== 'mask' || typeof given !== 'object' || given === null || Array.isArray(given);
}

/**
 * Whether the field ends with this patch: another caller set it without seeing the data, and this caller, who brings other data, does
 * not say that it wants the field so.
 */
function ends(field: Field, attempt: PatchAttempt): boolean {
  const { details, patch, context } = attempt;
  const setBy = details.content.set_without_sight?.[field];
  const isKept = patch.data === undefined || isSaidWhole(field, attempt);
  return setBy !== undefined && setBy !== setterOf(context) && !isKept;
}

/** The stored fields to which the patch is applied. Those that end give way to the defaults of the type, or to none where there was none. */
export function describedBefore(attempt: PatchAttempt): Described {
  const { type, content } = attempt.details;
  const { mask, search_indexes: indexes = [], fingerprint_expression: expression } = content;
  const defaults = typeDefaults[type];
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

/** The fields that the patch would change. They are compared with the stored ones, so that a client may send the token back unchanged. */
export const changedDescriptions = (attempt: PatchAttempt): Field[] =>
  descriptions.filter((field) => isChanged(field, attempt));

/**
 * By whom the field is set without sight after the patch. A caller that sees the data takes it over when it sets the whole field anew, or brings
 * data with it. A field that it sends back as it was stays with its setter.
 */
function setterAfter(
  field: Field,
  attempt: PatchAttempt,
  { isSet, before }: { readonly isSet: boolean; readonly before: string | undefined },
): string | undefined {
  const { patch, transform, context } = attempt;
  if (transform !== 'reveal') return isSet ? setterOf(context) : before;
  const isWhole = isSaidWhole(field, attempt);
  return isWhole && (isSet || patch.data !== undefined) ? undefined : before;
}

/** By whom the fields are set without sight after the patch. */
export function setWithoutSightAfter(attempt: PatchAttempt): Pick<Described, 'set_without_sight'> {
  const { details, patch } = attempt;
  const before = details.content.set_without_sight;
  const entries = descriptions.flatMap((field) => {
    const isEnded = ends(field, attempt);
    const isSet = patch[field] !== undefined && (isEnded || isChanged(field, attempt));
    const setBy = setterAfter(field, attempt, { isSet, before: isEnded ? undefined : before?.[field] });
    return setBy === undefined ? [] : [[field, setBy] as const];
  });
  return entries.length === 0 ? {} : { set_without_sight: Object.fromEntries(entries) };
}
