import type { Principal } from '@token-vault/access';
import type { Answer } from './handlers.ts';

export interface IdempotentRequest {
  readonly principal: Principal;
  readonly method: string;
  readonly path: string;
  readonly key: string;
}

/** Answers of requests sent with SVC-IDEMPOTENCY-KEY (decisions.md §2). */
export interface IdempotentAnswers {
  /**
   * Runs the request, or replays the stored answer of its first success.
   * @throws ConflictError `idempotency_in_flight` while the first one runs.
   */
  run(request: IdempotentRequest, handle: (scope: readonly string[]) => Promise<Answer>): Promise<Answer>;
}
