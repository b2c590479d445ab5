import type { Json, PatchTokenBody, Transform } from '@token-vault/contracts';
import { secretIfGiven, type Secret } from '@token-vault/crypto';
import type { RequestContext } from '@token-vault/operations';
import type { TokenDetails } from '@token-vault/tokens';

/** The body of a patch, its plaintext as a secret. */
export interface Patch extends Omit<PatchTokenBody, 'data'> {
  readonly data: Secret<Json> | undefined;
}

export const patchOf = (body: PatchTokenBody): Patch => ({ ...body, data: secretIfGiven(body.data) });

/**
 * A patch and the rights of its caller. `transform`: how token:update shows the present token. `target`: how it shows
 * the token in its new container.
 */
export interface PatchAttempt {
  readonly details: TokenDetails;
  readonly patch: Patch;
  readonly context: RequestContext;
  readonly target: readonly string[];
  readonly transform: Transform;
  readonly targetTransform: Transform;
}
