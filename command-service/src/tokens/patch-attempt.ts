import { isDeepStrictEqual } from 'node:util';
import type { Json, PatchTokenBody, TokenType, Transform } from '@token-vault/contracts';
import type { Secret } from '@token-vault/crypto';
import type { RequestContext } from '@token-vault/operations';
import { fieldsOfShape, type TokenDetails } from '@token-vault/tokens';

/**
 * A patch and the rights of its caller. `transform`: how token:update shows the present token. `target`: how it shows
 * the token in its new container.
 */
export interface PatchAttempt {
  readonly details: TokenDetails;
  readonly patch: PatchTokenBody;
  readonly context: RequestContext;
  readonly target: readonly string[];
  readonly transform: Transform;
  readonly targetTransform: Transform;
}

/** Whether the patch gives the token another container. */
export const isMoved = ({ details, target }: PatchAttempt): boolean =>
  !isDeepStrictEqual(target, details.content.containers);

function isObject(value: Json | undefined): value is Record<string, Json> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Whether the patch replaces all stored data, whatever that data is. For an object of unknown properties the answer
 * is no: only the stored data could tell, and the result would reveal it to the caller.
 */
export function isDataBroughtWhole(type: TokenType, given: Secret<Json> | undefined): boolean {
  const data = given?.expose();
  if (data === undefined) return false;
  if (!isObject(data)) return true;
  const fields = fieldsOfShape(type);
  return fields !== undefined && fields.every((field) => Object.hasOwn(data, field));
}

/** The caller neither sees the stored data nor replaces all of it. Then the decision must not depend on that data. */
export const isDataHidden = ({ details, patch, transform }: PatchAttempt): boolean =>
  transform !== 'reveal' && !isDataBroughtWhole(details.type, patch.data);

/** The caller sees the stored data, and does not replace all of it: the decision may depend on that data. */
export const readsStoredData = ({ details, patch, transform }: PatchAttempt): boolean =>
  transform === 'reveal' && !isDataBroughtWhole(details.type, patch.data);
