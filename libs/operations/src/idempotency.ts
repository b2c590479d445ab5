import type { Principal } from '@token-vault/access';
import type { Token } from '@token-vault/contracts';
import type { Answer, AnswerToken } from './handlers.ts';
import type { RequestContext } from './request-context.ts';

export interface IdempotentRequest {
  readonly principal: Principal;
  readonly method: string;
  readonly path: string;
  readonly key: string;
}

/** A token of a stored answer. The id alone may name another one later: `createdAt` tells them apart. */
export interface StoredToken extends AnswerToken {
  readonly createdAt: string;
}

export interface TokenFacts {
  readonly createdAt: string;
  /** When its cvc is deleted; undefined when it has none. */
  readonly cvcEndsAt: string | undefined;
}

/** What stored answers need of tokens. Answers hold no token: it is shown as it is when the request is repeated. */
export interface TokenReplay {
  /** In the order of the ids; undefined for one that is not there. */
  facts(ids: readonly string[], context: RequestContext): Promise<readonly (TokenFacts | undefined)[]>;
  /**
   * The tokens as the caller may see them now, recorded durably; undefined for those that the answer does not hold whole.
   * @throws NotFoundError when one is gone, ForbiddenError when the caller has lost the right
   */
  show(tokens: readonly StoredToken[], context: RequestContext): Promise<readonly (Token | undefined)[]>;
}

/** The check of stored answers that may hold the key of an application. */
export interface ApplicationReplay {
  /**
   * The application is there, and its caller could make it now, or give it a key.
   * @throws NotFoundError, ForbiddenError (rules.md §6)
   */
  require(id: string, context: RequestContext): Promise<void>;
}

/** What happens to the first answer of one request. */
export interface Repeating {
  facts(ids: readonly string[]): Promise<readonly (TokenFacts | undefined)[]>;
  /** The first answer, of which tokens were left out, as its caller may see it now. @throws DomainError */
  show(answer: Answer, tokens: readonly StoredToken[]): Promise<Answer>;
}

/** Answers of requests sent with SVC-IDEMPOTENCY-KEY (rules.md §2). */
export interface IdempotentAnswers {
  /**
   * Runs the request, or shows the stored answer of its first success again.
   * @throws ConflictError `idempotency_in_flight` while the first one runs.
   */
  run(
    request: IdempotentRequest,
    handle: (scope: readonly string[]) => Promise<Answer>,
    repeating: Repeating,
  ): Promise<Answer>;
}
