import { isDeepStrictEqual } from 'node:util';
import { authorOf, descriptions, type TokenContent } from '@token-vault/contracts';
import type { PatchAttempt } from './patch-attempt.ts';
import { mergeMask, replace } from './patched-fields.ts';
import { typeDefaults } from '@token-vault/tokens';

/** The expressions of a token: its mask, and the values that are computed from its data. */
export type Described = Pick<TokenContent, (typeof descriptions)[number] | 'set_without_sight'>;

type Field = (typeof descriptions)[number];

/**
 * Whether the field ends with this patch: another application set it without seeing the data, and its caller, who brings other data, does
 * not say that it wants the field so.
 */
function ends(field: Field, { details, patch, context }: PatchAttempt): boolean {
  const setBy = details.content.set_without_sight?.[field];
  const isKept = patch.data === undefined || patch[field] !== undefined;
  return setBy !== undefined && setBy !== authorOf(context.metadata) && !isKept;
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

/** By whom the fields are set without sight after the patch. */
export function setWithoutSightAfter(attempt: PatchAttempt): Pick<Described, 'set_without_sight'> {
  const { details, patch, context, transform } = attempt;
  const before = details.content.set_without_sight;
  const author = authorOf(context.metadata);
  const entries = descriptions.flatMap((field) => {
    const isGiven = patch[field] !== undefined;
    if (isGiven && transform === 'reveal') return [];
    const setBy = isGiven && isChanged(field, attempt) ? author : before?.[field];
    return setBy === undefined || ends(field, attempt) ? [] : [[field, setBy] as const];
  });
  return entries.length === 0 ? {} : { set_without_sight: Object.fromEntries(entries) };
}
