import type { PatchTokenBody, Transform } from '@token-vault/contracts';
import type { RequestContext } from '@token-vault/operations';
import type { TokenDetails } from '@token-vault/tokens';

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
