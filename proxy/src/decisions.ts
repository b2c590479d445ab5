import type { ForbiddenError, RawRequest } from '@token-vault/contracts';
import type { EventStore } from '@token-vault/event-store';
import type { TokenReferences } from '@token-vault/expressions';
import { throwAfterWork, type RequestContext } from '@token-vault/operations';
import type { ProxyCode, TakenTokens } from './code.ts';
import type { ConfiguredProxy } from './configured.ts';
import type { OutgoingTemplate } from './outgoing.ts';

export interface DecisionDependencies {
  readonly store: Pick<EventStore, 'consistently'>;
  /** A token that was created later under the id of a taken token does not count as it. @throws as `takeTokens` */
  readonly checkTokens: (
    references: TokenReferences,
    context: RequestContext,
    madeAt: TakenTokens['madeAt'],
  ) => Promise<void>;
  /**
   * Reads tokens. Gives a function that finds the present rights of the caller, and gives the refusal for the first token that the caller may
   * not use. The last state of a token that has ended decides.
   */
  readonly decisionOnUse: (
    tokenIds: readonly string[],
    context: RequestContext,
  ) => Promise<(present: RequestContext) => ForbiddenError | undefined>;
}

/** A request on its way out. */
export interface Going {
  readonly raw: RawRequest;
  readonly destination: URL;
  /** Set for a configured proxy: its requests do not name their destination. */
  readonly proxy?: ConfiguredProxy;
  readonly template: OutgoingTemplate;
  /** Decides about the destination once more. @throws DomainError */
  readonly requireStanding: (context: RequestContext) => Promise<void> | void;
}

/** A request with the tokens that it was given. */
export interface Leaving extends Going {
  readonly madeAt: TakenTokens['madeAt'];
}

/** The parts of an exchange by which a decision is made again. */
interface Asked {
  readonly requireStanding: Going['requireStanding'];
  readonly tokenIds: readonly string[];
  readonly beforeRights: () => void;
}

/** The decisions about one exchange, by the rights and the tokens of the moment in which each is made (ADR 16). */
export class ExchangeDecisions {
  readonly #dependencies: DecisionDependencies;
  readonly #leaving: Leaving;
  readonly #code: ProxyCode;
  readonly #context: RequestContext;

  constructor(
    dependencies: DecisionDependencies,
    leaving: Leaving,
    code: ProxyCode,
    context: RequestContext,
  ) {
    this.#dependencies = dependencies;
    this.#leaving = leaving;
    this.#code = code;
    this.#context = context;
  }

  get #tokenIds(): readonly string[] {
    return [...this.#leaving.template.references.tokens.keys()];
  }

  /** Whether data may leave: by the rights, the destination and the tokens of this moment. @throws DomainError */
  requireSendable(): Promise<void> {
    const { template, madeAt, requireStanding } = this.#leaving;
    const code = this.#code;
    return this.#dependencies.store.consistently(async (beforeRights) => {
      const decide = await this.#decisionOn({ requireStanding, tokenIds: this.#tokenIds, beforeRights });
      await decideFirst(decide, () => code.requireThere(this.#context));
      // They are read by now. They may have expired while others were read.
      await this.#dependencies.checkTokens(template.references, this.#context, madeAt);
    });
  }

  /** Whether code may go on: by the rights and the destination of this moment, and by the last state of each token. @throws DomainError */
  requireActing(): Promise<void> {
    const { requireStanding } = this.#leaving;
    return this.#dependencies.store.consistently(async (beforeRights) => {
      const decide = await this.#decisionOn({ requireStanding, tokenIds: this.#tokenIds, beforeRights });
      await decide();
    });
  }

  /**
   * Whether the answer may be shown. It may hold the data that was sent, and so may an error of code. It is given by the present rights, and while
   * the tokens are there that code was shown. The tokens of the request were decided when it began; a moment later, that decision still holds,
   * unless others have to be read.
   * @throws UnauthenticatedError, ForbiddenError, ConflictError, OutcomeUnknownError
   */
  async requireShown(): Promise<void> {
    const code = this.#code;
    const { requireStanding } = this.#leaving;
    const isDecided = !code.hasSeen && (await this.#context.renewed()) === undefined;
    const tokenIds = isDecided ? [] : this.#tokenIds;
    const deciding = this.#dependencies.store.consistently(async (beforeRights) => {
      const decide = await this.#decisionOn({ requireStanding, tokenIds, beforeRights });
      await decideFirst(decide, () => code.requireThereForAnswer(this.#context));
    });
    await deciding.catch(throwAfterWork);
  }

  /** Reads the tokens, which may take long. Gives the function that then finds the rights of the caller, and decides. */
  async #decisionOn({ requireStanding, tokenIds, beforeRights }: Asked): Promise<() => Promise<void>> {
    const decideSeen = await this.#code.decisionOnSeen(this.#context);
    const decideUse = await this.#dependencies.decisionOnUse(tokenIds, this.#context);
    return async () => {
      beforeRights();
      const seen = await decideSeen();
      const present = (await this.#context.renewed()) ?? this.#context;
      await requireStanding(present);
      const refusal = decideUse(present) ?? seen.refusal ?? this.#code.refusalOfCvc();
      if (refusal) throw refusal;
    };
  }
}

/** Decides by the present rights first, which are found last, then by whether the tokens are there that code was shown. @throws DomainError */
async function decideFirst(decide: () => Promise<void>, requireThere: () => Promise<void>): Promise<void> {
  const there = requireThere();
  await there.catch(() => undefined);
  await decide();
  await there;
}
