import type { Json, PatchTokenBody } from '@token-vault/contracts';
import { mayRead } from '@token-vault/expressions';
import {
  DataDependentError,
  type AnswerToken,
  type Path,
  type RequestContext,
  type Showing,
} from '@token-vault/operations';
import { cvcEndOf, DataTooLargeError, type TokenDetails } from '@token-vault/tokens';
import type { CreatedToken } from './create.ts';
import { requireAccess } from './drafts.ts';
import { EvaluationFailedError } from './expression-errors.ts';
import { tellsOfStoredData } from './hidden-data.ts';
import { isDataHidden, readsStoredData } from './patch-attempt.ts';
import type { PatchAttempt } from './patch-attempt.ts';

/** The right by which a caller is told of data that a patch read. What it may read does not matter: it is shown none. */
const told: Showing = { permission: 'token:update', transform: 'reveal', isTold: true };

/** The right of a caller that patches data which it may not see. */
const unseen: Showing = { permission: 'token:update', transform: 'redact' };

const patched = (
  { details: { id, createdAt } }: PatchAttempt,
  shown: Showing,
  cvcEndsAt?: string,
): AnswerToken => ({ id, createdAt, by: 'seen', shown, cvcEndsAt });

/**
 * The patched token, when the success of the patch tells of stored data that the caller did not send: its expressions
 * worked on it. `mask`: the mask that was evaluated.
 */
export function toldBySuccess(attempt: PatchAttempt, mask: Json | undefined): AnswerToken | undefined {
  if (!tellsOfStoredData(attempt)) return undefined;
  const { details, context } = attempt;
  const isCvcRead = mask !== undefined && mayRead(mask, 'cvc');
  return patched(attempt, told, isCvcRead ? cvcEndOf(details.content, context.now) : undefined);
}

/**
 * The same for a patch that an earlier attempt of the request has done. The present rights decide whether it tells the caller of data, because
 * those of the earlier attempt are not known. @throws ForbiddenError
 */
export function toldByRepeat(
  details: TokenDetails,
  patch: PatchTokenBody,
  context: RequestContext,
): AnswerToken | undefined {
  const { id, type, content } = details;
  const { containers: target, mask } = content;
  const transform = requireAccess(context, 'token:update', { id, type, containers: target });
  return toldBySuccess({ details, patch, context, target, transform, targetTransform: transform }, mask);
}

/** The patched token, when the answer is another one: the right to patch it decides about that answer. */
export const toldByDuplicate = (attempt: PatchAttempt): AnswerToken =>
  patched(attempt, readsStoredData(attempt) ? told : unseen);

/**
 * The error of a patch whose expressions failed on stored data that the caller did not send, or that made it too large: it tells of that
 * data. The size is told also to a caller that may not see the data.
 */
export function failureOfPatch(error: unknown, attempt: PatchAttempt): unknown {
  const isTooLarge = error instanceof DataTooLargeError;
  const mayTell = isTooLarge || error instanceof EvaluationFailedError;
  const isHidden = isTooLarge && isDataHidden(attempt);
  if (!mayTell || !(isHidden || tellsOfStoredData(attempt))) return error;
  const { details, context } = attempt;
  return new DataDependentError(error, {
    tokens: [patched(attempt, isHidden ? unseen : told, cvcEndOf(details.content, context.now))],
  });
}

/**
 * The tokens of the answer to a create. `at`: the place of the whole token; unset where the answer holds only its id. A
 * duplicate tells that it has the data of the request, so the right to make the token that was asked for decides too.
 */
export function tokensOfCreate(
  { token: { id, containers }, createdAt, isNew, cvcEndsAt, shown, asked }: CreatedToken,
  at: Path | undefined,
): AnswerToken[] {
  // A token that was made shows what the caller sent, so the right to make it there decides for code, also when the token has moved.
  const own = isNew && shown && containers ? { ...shown, asked: { id, containers } } : shown;
  const whole = at === undefined ? {} : { at, shown: own };
  const by = isNew ? 'create' : 'duplicate-of-create';
  const created: AnswerToken = { id, createdAt, by, cvcEndsAt, ...whole };
  if (asked === undefined) return [created];
  const right: Showing = { permission: 'token:create', transform: 'redact', isTold: true, asked };
  return [created, { id, createdAt, by: 'seen', shown: right }];
}
