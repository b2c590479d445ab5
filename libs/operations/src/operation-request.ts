import type { ParentRun, RawRequest, Secret } from '@token-vault/contracts';
import type { Identity } from './callers.ts';
import type { RecordedRefusals } from './recorded-refusals.ts';

/** A session of the console, as a cookie names it, unchecked. */
export interface NamedSession {
  readonly id: string;
  /** SHA-256 (hex) of the secret. */
  readonly secretHash: string;
  /** The tenant of the session according to the read models; undefined when they do not have the session. */
  readonly tenantId: string | undefined;
}

/** Gives the result of `wait`. The request holds no place meanwhile, and takes one again before it goes on. */
export type OutOfTurn = <Result>(wait: () => Promise<Result>) => Promise<Result>;

/** One request, as an entrance (HTTP, reactor code) passes it on. No part of it is validated. */
export interface OperationRequest {
  readonly traceId: string;
  /**
   * Finds the owner of the request's credential at this moment. Called again when reading the rest of the request took long.
   * @throws DomainError
   */
  identify(): Promise<Identity>;
  /** Requires that the page that sent the request may use its credential. Called when the caller is known. @throws ForbiddenError */
  readonly requirePage?: (() => void) | undefined;
  readonly params: unknown;
  readonly query: unknown;
  /** Reads the body. Called after the other parts are validated. @throws DomainError */
  readBody(): Promise<Secret<unknown>>;
  /** Likewise, for an operation that is given the request as it came. Absent where requests do not come over HTTP. */
  readRaw?: (() => Promise<RawRequest>) | undefined;
  /** The media type of the body; absent when the body is already a value. */
  readonly mediaType?: string | undefined;
  /** SVC-TRANSACTION-ID, SVC-POSITION, SVC-IDEMPOTENCY-KEY. */
  readonly transactionId?: string | undefined;
  readonly position?: string | undefined;
  readonly idempotencyKey?: string | undefined;
  /** SVC-REASON: the reason of the caller for this access. */
  readonly reason?: string | undefined;
  /** The caller does not wait for the read models. */
  readonly isAsync?: boolean | undefined;
  /** Unknown fields are ignored (`Prefer: handling=lenient`, rules.md §1). */
  readonly isLenient?: boolean | undefined;
  /** The invocation whose code sent the request. */
  readonly causationId?: string | undefined;
  /** That run and the runs that it is nested in, when code sent the request. */
  readonly parents?: readonly ParentRun[] | undefined;
  /** The refusals of that run. */
  readonly refusals?: RecordedRefusals | undefined;
  /** The session of the console that the request's cookie names: signing in again takes its place. */
  readonly consoleSession?: (() => Promise<NamedSession | undefined>) | undefined;
  /** Aborts when the client has gone (RequestContext.signal). Absent where requests have none. */
  readonly signal?: AbortSignal | undefined;
  /** Called when the request waits for other requests (RequestContext.waitsForOthers). */
  readonly onWaiting?: (() => void) | undefined;
  /** Waits without the place of the request (RequestContext.outOfTurn). Absent where requests have none. */
  readonly outOfTurn?: OutOfTurn | undefined;
  /** Called with the invocation that the request began (RequestContext.hasInvoked), also when its answer is a stored one. */
  readonly onInvoked?: ((invocationId: string) => void) | undefined;
  /** The texts from which the ids of its events are derived, when the entrance itself may repeat the request. */
  readonly idempotencyScope?: readonly string[] | undefined;
}
