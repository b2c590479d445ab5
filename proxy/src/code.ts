import { holderOf } from '@token-vault/access';
import {
  ConflictError,
  firstCvcEnd,
  isAmong,
  isMadeByCode,
  onlyDecides,
  refusalOfEndedCvc,
  type ForbiddenError,
  type ParentRun,
  type SeenToken,
  type TokenIdentity,
  usedBy,
  type VaultEvent,
} from '@token-vault/contracts';
import type { EgressAnswer } from '@token-vault/egress';
import type { Answer, AnswerStream, Clock, RequestContext } from '@token-vault/operations';
import type { ConfiguredProxy } from './configured.ts';
import type { Filled, Outgoing } from './outgoing.ts';
import {
  transformedAnswer,
  changedRequest,
  type CodeResult,
  type CodeRun,
  type RunCode,
  type Seen,
} from './transforms.ts';

/** Runs an evaluation over data that the caller may not see. Its errors count as misses. @throws RateLimitedError */
type Guess = <Result>(
  context: RequestContext,
  isMiss: (error: unknown) => boolean,
  work: () => Promise<Result>,
) => Promise<Result>;

/** Finds the rights by which code was shown tokens, and decides. */
export type DecideSeen = () => Promise<{ readonly refusal: ForbiddenError | undefined }>;

export interface CodeDependencies {
  readonly clock: Clock;
  readonly runCode: RunCode;
  readonly guess: Guess;
  /**
   * Reads these tokens, which may take seconds. Gives the function that then finds the rights of the application of the code. It refuses about the
   * first token that the application may not be shown now as the code was shown it.
   */
  readonly decisionOnSeen: (tokens: readonly SeenToken[], context: RequestContext) => Promise<DecideSeen>;
  /** Whether none of these tokens has been deleted or has expired. */
  readonly areThere: (tokens: readonly SeenToken[], context: RequestContext) => Promise<boolean>;
  /** Uses tokens for callers, and records it. @throws ForbiddenError; ValidationError when they have too much data */
  readonly useNamed: (tokenIds: readonly string[], callers: readonly RequestContext[]) => Promise<void>;
}

/** Code threw a response of its own making (`CustomHttpResponseError`): it is the answer. */
export class CustomAnswerError extends Error {
  readonly answer: Answer;
  constructor(answer: Answer) {
    super('the code of a proxy chose the answer');
    this.answer = answer;
  }
}

/** Tokens that the caller may use, checked and being opened. It does not hold their data, which may take 80 MB: an exchange may take minutes. */
export interface TakenTokens<Made = unknown> {
  /** Durable before anything of them leaves. */
  readonly use: readonly VaultEvent[];
  /** What was made of their data. Never rejects before it is awaited. */
  readonly made: Promise<Made>;
  /** RFC 3339. The end of the first cvc among them. */
  readonly cvcEndsAt?: string | undefined;
  /** `created_at` of each token, by id. */
  readonly madeAt: ReadonlyMap<string, string>;
}

interface CodeExchange {
  readonly proxy: ConfiguredProxy | undefined;
  readonly exchangeId: string;
  /** The tokens of the request. */
  readonly tokenIds: readonly string[];
  /** RFC 3339. The end of the first cvc among them. */
  readonly cvcEndsAt: string | undefined;
  readonly signal: AbortSignal;
  /** Decides again whether data may leave. @throws DomainError */
  readonly requireSendable: () => Promise<void>;
  /** Decides again whether code may change something. Tokens may be gone: the code may delete them. @throws DomainError */
  readonly requireActing: () => Promise<void>;
}

/** The transforms of one exchange; none where the request names its destination itself. */
export class ProxyCode {
  readonly #dependencies: CodeDependencies;
  readonly #exchange: CodeExchange;
  readonly #context: RequestContext;
  readonly #seenBy = new Map<CodeRun['part'], Seen>();
  /** The tokens that the code has deleted. */
  readonly #deleted: TokenIdentity[] = [];
  #hasRun = false;

  constructor(dependencies: CodeDependencies, exchange: CodeExchange, context: RequestContext) {
    this.#dependencies = dependencies;
    this.#exchange = exchange;
    this.#context = context;
  }

  get #seen(): readonly SeenToken[] {
    return [...this.#seenBy.values()].flatMap(({ tokens }) => tokens);
  }

  get hasSeen(): boolean {
    return this.#seen.length > 0;
  }

  /** The end of the first cvc that the request, or its code, was given. */
  get #cvcEndsAt(): string | undefined {
    return firstCvcEnd([this.#exchange, ...this.#seenBy.values()].map(({ cvcEndsAt }) => cvcEndsAt));
  }

  /** Whether an error may hold data that the code was given. */
  get hasRun(): boolean {
    return this.#hasRun;
  }

  /**
   * The request as it leaves. `args`: the request as the code of the proxy gets it; unset without code.
   * @throws DomainError, CustomAnswerError
   */
  async request({ outgoing, args }: Filled): Promise<Outgoing> {
    const { proxy } = this.#exchange;
    const code = proxy?.requestCode;
    const next =
      proxy && code !== undefined && args !== undefined
        ? changedRequest(outgoing, proxy, await this.#run(proxy, { part: 'request', code, args }))
        : outgoing;
    return proxy?.responseCode === undefined ? next : uncompressed(next);
  }

  /** The answer as it is given. @throws DomainError, CustomAnswerError */
  async answer(answer: EgressAnswer): Promise<AnswerStream> {
    const { proxy } = this.#exchange;
    const code = proxy?.responseCode;
    if (!proxy || code === undefined) return answer;
    const holder = holderOf(this.#context.principal);
    return transformedAnswer(answer, holder, (args) => this.#run(proxy, { part: 'response', code, args }));
  }

  /** The request that code made may hold data of the tokens that it was shown. Code may delete those that it made itself. @throws ConflictError */
  requireThere(context: RequestContext): Promise<void> {
    const isMade = isAmong(this.#seen.filter((token) => this.#isMaking(token)));
    return this.#requireThere(this.#deleted.filter(isMade), context);
  }

  /** So may the answer. Code may give the data of a token that it has deleted itself: it is used once. @throws ConflictError */
  requireThereForAnswer(context: RequestContext): Promise<void> {
    return this.#requireThere(this.#deleted, context);
  }

  /** Whether the code made the token then. A token that is older than the exchange was not made by it, but found as a duplicate. */
  #isMaking(token: SeenToken): boolean {
    return isMadeByCode(token) && (token.createdAt ?? '') >= this.#context.now.toISOString();
  }

  /** The tokens that the code was given. One that it made and was given later may hold data of others by then. */
  get #given(): readonly SeenToken[] {
    return this.#seen.filter((token) => !onlyDecides(token) && !this.#isMaking(token));
  }

  async #requireThere(without: readonly TokenIdentity[], context: RequestContext): Promise<void> {
    const isLeftOut = isAmong(without);
    const given = this.#given.filter((token) => !isLeftOut(token));
    if (given.length > 0 && !(await this.#dependencies.areThere(given, context)))
      throw new ConflictError('conflict', 'A token that the code was shown was deleted meanwhile.');
  }

  /** The answer may hold data of the tokens that the code was shown. */
  async decisionOnSeen(context: RequestContext): Promise<DecideSeen> {
    if (!this.hasSeen) return async () => ({ refusal: undefined });
    return this.#dependencies.decisionOnSeen(this.#seen, context);
  }

  /** Nothing that a cvc may have gone into leaves after the end of the cvc. */
  refusalOfCvc(): ForbiddenError | undefined {
    return refusalOfEndedCvc(this.#cvcEndsAt, this.#dependencies.clock.now());
  }

  /** The run of the proxy, for the reactors that its code invokes: these may get data of the request and of the tokens that the code was shown. */
  #runOf({ id: proxyId, revision }: ConfiguredProxy): ParentRun {
    const { principal, now } = this.#context;
    const { actor, authorizedBy, reason, keyHash, proxyKeyId: keyId } = principal;
    return {
      actor,
      authorizedBy,
      reason,
      // With a key of the proxy, the key of the application does not decide.
      keyHash: keyId === undefined ? keyHash : undefined,
      since: now.toISOString(),
      tokenIds: this.#exchange.tokenIds,
      owner: { proxyId, revision, keyId },
      seen: this.#seen,
      isSeenComplete: [...this.#seenBy.values()].every(({ isComplete }) => isComplete),
      cvcEndsAt: this.#cvcEndsAt,
    };
  }

  /** By the rights of this moment. @throws DomainError */
  async #useNamed(named: readonly string[]): Promise<readonly SeenToken[]> {
    const present = (await this.#context.renewed()) ?? this.#context;
    await this.#dependencies.useNamed(named, [present]);
    return named.map((id) => usedBy(present.principal, id));
  }

  async #run(
    proxy: ConfiguredProxy,
    transform: Pick<CodeRun, 'part' | 'code' | 'args'>,
  ): Promise<CodeResult> {
    this.#hasRun = true;
    const { exchangeId, signal, requireSendable, requireActing } = this.#exchange;
    const onSeen = (seen: Seen) => void this.#seenBy.set(transform.part, seen);
    const onDeleted = (tokens: readonly TokenIdentity[]) => void this.#deleted.push(...tokens);
    const parents = () => [this.#runOf(proxy)];
    const useNamed = (named: readonly string[]) => this.#useNamed(named);
    const guess: CodeRun['guess'] = (isMiss, work) => this.#dependencies.guess(this.#context, isMiss, work);
    const decisions = { requireSendable, requireActing, useNamed, guess };
    return this.#dependencies.runCode(
      { ...transform, ...decisions, proxy, exchangeId, signal, onSeen, onDeleted, parents },
      this.#context,
    );
  }
}

/** Code reads the answer, so it must not be compressed. */
const uncompressed = (outgoing: Outgoing): Outgoing => ({
  ...outgoing,
  headers: [
    ...outgoing.headers.filter(([name]) => name.toLowerCase() !== 'accept-encoding'),
    ['accept-encoding', 'identity'],
  ],
});
