import {
  ValidationError,
  type Json,
  type PatchTokenBody,
  type TokenContent,
  type TokenType,
} from '@token-vault/contracts';
import { secret, type Secret } from '@token-vault/crypto';
import { validateData } from '@token-vault/tokens';
import { parseExpiry } from './expiry.ts';
import { isObject, mergePatch } from './merge-patch.ts';

export function mergeMetadata(
  before: TokenContent['metadata'],
  patch: PatchTokenBody['metadata'],
): TokenContent['metadata'] {
  if (patch === undefined) return before;
  if (patch === null) return undefined;
  const merged = mergePatch(before, patch) as Record<string, string>;
  if (Object.keys(merged).length > 50) throw ValidationError.of('metadata', 'must have at most 50 keys');
  return merged;
}

export function mergeMask(before: Json | undefined, patch: Json | undefined): Json | undefined {
  if (patch === undefined) return before;
  const merged = mergePatch(before, patch);
  return merged ?? undefined;
}

/** Null unsets the field, undefined keeps it. */
export const replace = <Value>(
  before: Value | undefined,
  given: Value | null | undefined,
): Value | undefined => (given === undefined ? before : (given ?? undefined));

/** @throws ValidationError for a time in the past */
export const expiryAfter = (
  before: string | undefined,
  { expires_at: given }: PatchTokenBody,
  now: Date,
): string | undefined => (typeof given === 'string' ? parseExpiry(given, now) : replace(before, given));

/** @param before opens the stored data, which a value that is no object replaces without a look at it */
export async function mergeData(
  type: TokenType,
  before: () => Promise<Secret<Json>>,
  given: Secret<Json> | undefined,
): Promise<Secret<Json>> {
  const patch = given?.expose();
  if (patch === undefined) return before();
  if (patch === null) throw ValidationError.of('data', 'cannot be removed');
  const merged = isObject(patch) ? mergePatch((await before()).expose(), patch) : patch;
  return secret(validateData(type, merged));
}

export function isCvcIn(given: Secret<Json>): boolean {
  const patch = given.expose();
  return isObject(patch) && Object.hasOwn(patch, 'cvc');
}
