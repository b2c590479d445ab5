import type { Token } from '@token-vault/contracts';
import type { Position } from '@token-vault/event-store';
import type { AnswerToken, Showing } from '@token-vault/operations';
import { cvcEndOf, presentToken, type TokenDetails } from '@token-vault/tokens';

export interface UpdatedToken {
  readonly token: Token;
  readonly position: Position | undefined;
  /** Unset when the token has no cvc that may be shown. */
  readonly cvcEndsAt?: string | undefined;
  /** Unset when the answer shows nothing of the token. */
  readonly shown?: Showing;
  /** The patched token, where the answer tells of it what it does not show. */
  readonly told?: AnswerToken | undefined;
  /** The request was done before. `token` has no data, and is shown by the present rights of the caller. */
  readonly isRepeat?: true;
}

/** The result of an update that an earlier attempt of the request has done: the token as it is now. */
export const repeated = (
  tenantId: string,
  details: TokenDetails,
  position: Position,
  now: Date,
): UpdatedToken => ({
  token: presentToken(tenantId, details, undefined),
  position,
  cvcEndsAt: cvcEndOf(details.content, now),
  isRepeat: true,
});
