import { seesWithoutReason } from '@token-vault/access';
import { isDeepStrictEqual } from 'node:util';
import {
  authorOf,
  descriptions,
  fromStoredSetter,
  toStoredSetter,
  type DescriptionSetter,
  type Json,
  type TokenContent,
} from '@token-vault/contracts';
import type { RequestContext } from '@token-vault/operations';
import { randomUUID } from 'node:crypto';
import { isMoved, type PatchAttempt } from './patch-attempt.ts';
import { effectOfPatch } from './patch-effect.ts';
import { mergeMask, mergeMetadata, replace } from './patched-fields.ts';

/** The expressions of a token: its mask, and the values that are computed from its data. */
export type Described = Pick<TokenContent, (typeof descriptions)[number] | 'set_without_sight'>;

type Description = (typeof descriptions)[number];
const fields = [...descriptions, 'deduplicate_token'] as const;
type Field = (typeof fields)[number];

/**
 * The id that is stored with what this caller sets. A session has an id other than its application, which may see more. A public key is in each
 * browser, and requests of the console come from several people: each of their writes gets an id of its own. So does each run of code that does not
 * see the data, because the callers of code choose what it writes.
 */
function setterIdOf({ principal, metadata }: RequestContext, sees: boolean): string {
  if (metadata.causation_id !== undefined && !sees) return `code:${metadata.causation_id}`;
  if (principal.actor.kind === 'session') return principal.actor.id;
  if (principal.shownAtMost !== undefined) return `console:${randomUUID()}`;
  return principal.applicationType === 'public' ? `public:${randomUUID()}` : authorOf(metadata);
}

const idOfCaller = (attempt: PatchAttempt): string => setterIdOf(attempt.context, seesData(attempt));

/**
 * For a new token. Its creator knows this data. But a caller of the console must not be shown data that others write later (ADR 38), so its
 * expressions end with such a write. Those of other creators stay.
 */
export function setWithoutSightAtFirst(context: RequestContext): Pick<Described, 'set_without_sight'> {
  if (context.principal.shownAtMost === undefined) return {};
  const setter = toStoredSetter({ by: setterIdOf(context, false), sees: false });
  return { set_without_sight: Object.fromEntries(fields.map((field) => [field, setter])) };
}

/**
 * Whether the caller sees the data that its descriptions apply to, also without a reason: those of the token as it is, and those that others write
 * where the token is afterwards.
 */
function seesData({ transform, targetTransform, target, details, context }: PatchAttempt): boolean {
  if (transform !== 'reveal' || targetTransform !== 'reveal') return false;
  const { principal } = context;
  const { id, content } = details;
  if (principal.reason === undefined) return true;
  return [content.containers, target].every((containers) =>
    seesWithoutReason(principal, 'token:update', { id, containers }),
  );
}

/** Undefined: the creator of the token set the field, or a caller that saw the data in a release that did not store such callers. */
function setterBefore(field: Field, attempt: PatchAttempt): DescriptionSetter | undefined {
  const setters = attempt.details.content.set_without_sight ?? {};
  // Events before version 5 name the flag with the expression.
  const isOld = field === 'deduplicate_token' && typeof setters.fingerprint_expression === 'string';
  const stored = setters[isOld ? 'fingerprint_expression' : field];
  if (stored === undefined) return undefined;
  const setter = fromStoredSetter(stored);
  const stays = !isMoved(attempt) || (setter.by === idOfCaller(attempt) && seesData(attempt));
  return { ...setter, sees: setter.sees && stays };
}

/** Whether another caller set the field, and does not see the data. */
function isForeign(field: Field, attempt: PatchAttempt): boolean {
  const setter = setterBefore(field, attempt);
  return setter !== undefined && !setter.sees && setter.by !== idOfCaller(attempt);
}

/** Whether the patch replaces the whole field. An object of a mask is merged into the stored one. */
function isSaidWhole(field: Field, { patch }: PatchAttempt): boolean {
  const given = patch[field];
  if (given === undefined) return false;
  return field !== 'mask' || typeof given !== 'object' || given === null || Array.isArray(given);
}

/**
 * Whether the field ends with this patch: another caller set it without seeing the data, and this caller brings other data without giving
 * the whole field. The flag of deduplication makes a fingerprint, so it ends with another expression, too.
 */
function ends(field: Field, attempt: PatchAttempt): boolean {
  const { data, fingerprint_expression: expression } = attempt.patch;
  const isOver = data !== undefined || (field === 'deduplicate_token' && expression !== undefined);
  return isOver && !isSaidWhole(field, attempt) && isForeign(field, attempt);
}

/** The stored fields to which the patch is applied. One that ends leaves nothing: any other value could show more of the data than the setter of a field wanted. */
export function describedBefore(attempt: PatchAttempt): Described {
  const { content } = attempt.details;
  const of = (field: Description) => (ends(field, attempt) ? undefined : content[field]);
  const [mask, indexes, expression] = descriptions.map(of);
  return {
    ...(mask === undefined ? {} : { mask }),
    search_indexes: (indexes ?? []) as string[],
    ...(expression === undefined ? {} : { fingerprint_expression: expression as string }),
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

function isChanged(field: Description, { details: { content }, patch }: PatchAttempt): boolean {
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

/** The stored flag to which the patch is applied. It is off when it ends. */
const flagBefore = (attempt: PatchAttempt): boolean | undefined =>
  ends('deduplicate_token', attempt) ? false : attempt.details.content.deduplicate_token;

/** Whether tokens of equal data are looked for after the patch. Undefined: the setting of the tenant decides. */
export const deduplicationAfter = (attempt: PatchAttempt): boolean | undefined =>
  replace(flagBefore(attempt), attempt.patch.deduplicate_token);

/** Whether the patch changes metadata that the expression reads. */
function changesMetadataOf(expression: Json | undefined, { details, patch }: PatchAttempt): boolean {
  if (typeof expression !== 'string' || patch.metadata === undefined) return false;
  const { metadata = {} } = details.content;
  const merged = mergeMetadata(metadata, patch.metadata) ?? {};
  const keys = Object.keys({ ...metadata, ...merged }).filter((key) => metadata[key] !== merged[key]);
  if (keys.length === 0) return false;
  const changed = Object.fromEntries(keys.map((key) => [key, merged[key] ?? null]));
  return effectOfPatch(expression, { ...patch, metadata: changed }).changesMetadata;
}

/** The caller does not see the data, and changes metadata that the fingerprint reads: it could take the salt away from data that others bring later. */
export const changesSalt = (attempt: PatchAttempt): boolean =>
  !seesData(attempt) && changesMetadataOf(describedAfter(attempt).fingerprint_expression, attempt);

/** Whether the patch sets the field to another value. */
function sets(field: Field, attempt: PatchAttempt): boolean {
  if (field === 'deduplicate_token') return deduplicationAfter(attempt) !== flagBefore(attempt);
  return attempt.patch[field] !== undefined && (ends(field, attempt) || isChanged(field, attempt));
}

/** The fields that the patch would change. They are compared with the stored ones, so that a client may send the token back unchanged. */
export const changedDescriptions = (attempt: PatchAttempt): Description[] =>
  descriptions.filter((field) => isChanged(field, attempt));

/** Whether the caller sees the data and says the whole field together with data: then it takes the field over unchanged. */
const isTakenOver = (field: Field, attempt: PatchAttempt): boolean =>
  attempt.patch.data !== undefined && isSaidWhole(field, attempt) && seesData(attempt);

/** The setter of what this patch sets. Of a field of two callers it is none of them: the field ends with the next data of either. */
function setterNow(
  field: Field,
  attempt: PatchAttempt,
  before: DescriptionSetter | undefined,
): DescriptionSetter | undefined {
  const caller = { by: idOfCaller(attempt), sees: seesData(attempt) };
  if (before && before.by !== caller.by && !isSaidWhole(field, attempt))
    return { by: `several:${randomUUID()}`, sees: before.sees && caller.sees };
  const isCreator = caller.sees && caller.by === attempt.details.createdBy;
  return isCreator ? undefined : caller;
}

/** The setter of a field that the patch does not set. That a fingerprint expression has ended is stored, so that no default takes its place. */
function setterKept(field: Field, attempt: PatchAttempt): DescriptionSetter | undefined {
  if (!ends(field, attempt)) return setterBefore(field, attempt);
  return field === 'fingerprint_expression' ? { by: `ended:${randomUUID()}`, sees: false } : undefined;
}

/** After the patch, the caller that set the field. */
function setterAfter(field: Field, attempt: PatchAttempt): DescriptionSetter | undefined {
  const kept = setterKept(field, attempt);
  const isSet = isTakenOver(field, attempt) || sets(field, attempt);
  const setter = isSet ? setterNow(field, attempt, ends(field, attempt) ? undefined : kept) : kept;
  // The flag makes an expression of its own where there is none.
  const isMadeByFlag =
    field === 'fingerprint_expression' &&
    describedAfter(attempt)[field] === undefined &&
    isDefaultMade(attempt);
  return (isMadeByFlag ? setterAfter('deduplicate_token', attempt) : undefined) ?? setter;
}

/**
 * Whether the flag or the setting of the tenant gives a token without an expression that of its type: not where the expression of another caller has
 * ended, which may have had a salt, until somebody says the expression or takes the flag on.
 */
export function isDefaultMade(attempt: PatchAttempt): boolean {
  const { fingerprint_expression: expression, deduplicate_token: flag } = attempt.patch;
  return expression === null || flag === true || setterKept('fingerprint_expression', attempt) === undefined;
}

/** After the patch, the callers that set fields by a PATCH. */
export function setWithoutSightAfter(attempt: PatchAttempt): Pick<Described, 'set_without_sight'> {
  const entries = fields.flatMap((field) => {
    const setter = setterAfter(field, attempt);
    return setter ? [[field, toStoredSetter(setter)] as const] : [];
  });
  return entries.length === 0 ? {} : { set_without_sight: Object.fromEntries(entries) };
}
