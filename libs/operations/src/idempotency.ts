import type { Principal } from '@token-vault/access';
import type { Token } from '@token-vault/contracts';
import type { EventStore } from '@token-vault/event-store';
import type { Answer, AnswerToken } from './handlers.ts';
import type { RequestContext } from './request-context.ts';

export interface IdempotentRequest {
  readonly principal: Principal;
  readonly method: string;
  readonly path: string;
  readonly key: string;
}

/** A token of a stored answer. A later token may have the same id: `createdAt` tells them apart. */
export interface StoredToken extends AnswerToken {
  readonly createdAt: string;
}

export interface TokenFacts {
  readonly createdAt: string;
  /** When its cvc is deleted; undefined when it has none. */
  readonly cvcEndsAt: string | undefined;
}

interface LaterRights {
  /** Called when the tokens were read, which may take long: the request with the present rights of its caller. */
  readonly present: () => Promise<RequestContext>;
  /** The answer was decided before, and is decided once more because it left late. It shows no token whole. */
  readonly isOnRecord: boolean;
}

export interface ShownAgain {
  /** Undefined where the answer does not hold the token whole. */
  readonly token: Token | undefined;
  /** When the cvc ends that it may show. */
  readonly cvcEndsAt: string | undefined;
}

/** The functions for tokens that stored answers need. Stored answers contain no token: a repeat shows the present state of the token. */
export interface TokenReplay extends Pick<EventStore, 'consistently'> {
  /** One entry for each id, in the same order; undefined for a token that does not exist. */
  facts(ids: readonly string[], context: RequestContext): Promise<readonly (TokenFacts | undefined)[]>;
  /**
   * The tokens as the caller may see them now; the read is recorded durably.
   * @param later the rights of the caller, which are found when the tokens were read, and whether this reading is on record already
   * @throws NotFoundError when a token was deleted, ForbiddenError when the caller has lost the right
   */
  show(
    tokens: readonly StoredToken[],
    context: RequestContext,
    later: LaterRights,
  ): Promise<readonly (ShownAgain | undefined)[]>;
  /** Whether all of these tokens are there as they were shown, and have not been changed since. */
  areAsShown(tokens: readonly Token[], context: RequestContext): Promise<boolean>;
}

/** Checks stored answers that may hold the key of an application. */
export interface ApplicationReplay {
  /**
   * Checks that the application exists, and that its caller may create it now, or give it a key.
   * @throws NotFoundError, ForbiddenError (rules.md §6)
   */
  require(id: string, context: RequestContext): Promise<void>;
}

/** The handling of the first answer of one request. */
export interface Repeating {
  facts(ids: readonly string[]): Promise<readonly (TokenFacts | undefined)[]>;
  /** The first answer, stored without its tokens, as its caller may see it now. @throws DomainError */
  show(answer: Answer, tokens: readonly StoredToken[]): Promise<Answer>;
  /** Whether a token of the answer was changed since. Its caller had not sent the data of a token that it changed, but is shown it. */
  isOvertaken(answer: Answer): Promise<boolean>;
}

/** The tokens of an answer by name; undefined when one of them was deleted, or another token has its id. */
export async function namedTokens(
  tokens: readonly AnswerToken[],
  factsOf: (ids: readonly string[]) => Promise<readonly (TokenFacts | undefined)[]>,
): Promise<{ tokens: readonly StoredToken[]; facts: readonly TokenFacts[] } | undefined> {
  const asked = [
    ...new Set(
      tokens.filter(({ createdAt, by }) => createdAt === undefined && by !== 'ran').map(({ id }) => id),
    ),
  ];
  const answers = asked.length === 0 ? [] : await factsOf(asked);
  const facts = new Map(
    asked.flatMap((id, index) => (answers[index] ? [[id, answers[index]] as const] : [])),
  );
  const named: StoredToken[] = [];
  for (const { id, at, by, asOf, shown, createdAt = facts.get(id)?.createdAt } of tokens) {
    if (by === 'ran') {
      named.push({ id, by, createdAt: '', shown });
      continue;
    }
    if (createdAt === undefined || (asOf !== undefined && Date.parse(createdAt) > Date.parse(asOf)))
      return undefined;
    // About the other tokens the caller's own rights decide, whatever was shown.
    const seen = by === 'seen' && shown !== undefined ? { shown } : {};
    named.push({ id, ...(at === undefined ? {} : { at }), by, createdAt, ...seen });
  }
  return { tokens: named, facts: [...facts.values()] };
}

/** Answers to requests that were sent with SVC-IDEMPOTENCY-KEY (rules.md §2). */
export interface IdempotentAnswers {
  /**
   * Runs the request, or shows the stored answer of its first success again.
   * @throws ConflictError `idempotency_in_flight` while the first one runs.
   */
  run(
    request: IdempotentRequest,
    handle: (scope: readonly string[], isTakenOver: boolean) => Promise<Answer>,
    repeating: Repeating,
  ): Promise<Answer>;
}
