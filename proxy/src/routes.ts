import { holderOf } from '@token-vault/access';
import {
  ConflictError,
  DomainError,
  FieldForbiddenError,
  UnavailableError,
  type RawRequest,
} from '@token-vault/contracts';
import { TenantShares, type Holder } from '@token-vault/batching';
import type { EgressSend } from '@token-vault/egress';
import { ExchangeDecisions, type DecisionDependencies, type Going, type Leaving } from './decisions.ts';
import type { DetokenizedToken, Expressions, TokenReferences } from '@token-vault/expressions';
import { errorFields, type Logger, type ProxyObserver, type ProxyOutcome } from '@token-vault/observability';
import {
  throwAfterWork,
  type AuditTrail,
  type HandlersOf,
  type Answer,
  type RequestContext,
} from '@token-vault/operations';
import { CustomAnswerError, ProxyCode, type CodeDependencies, type TakenTokens } from './code.ts';
import { urlOf, withoutKey, type ConfiguredProxy } from './configured.ts';
import { destinationOf, requireAllowed, type Sender } from './destination.ts';
import { Exchange, outcomeOf } from './exchange.ts';
import { readOutgoing, withoutEmptyBody, type Filled } from './outgoing.ts';
import { asRefusal, Refusals } from './refusal.ts';
import { argumentsOf } from './transforms.ts';

export interface ProxyDependencies extends CodeDependencies, DecisionDependencies {
  /** The proxy as the log has it now. @throws NotFoundError; AlteredRecordError; ForbiddenError when the application of its code is gone */
  readonly findProxy: (tenantId: string, id: string) => Promise<ConfiguredProxy>;
  readonly audit: AuditTrail;
  readonly expressions: Expressions;
  readonly logger: Logger;
  readonly observe: ProxyObserver;
  readonly send: EgressSend;
  /** @throws ValidationError for a token that is not there, ForbiddenError for one that the caller may not use */
  readonly takeTokens: <Made>(
    references: TokenReferences,
    context: RequestContext,
    make: (tokens: ReadonlyMap<string, DetokenizedToken>) => Promise<Made>,
  ) => Promise<TakenTokens<Made>>;
}

export interface ProxyHandlers {
  readonly handlers: HandlersOf<'proxy'>;
  /** Resolves when the end of every exchange is recorded. Call it when no new requests come. */
  close(): Promise<void>;
}

/**
 * Exchanges of one tenant at once, in this process: slow destinations must not take the connections of other tenants. Those of one application
 * are half of it at most, so that its slow destinations leave places to the others of its tenant.
 */
const mostOfTenant = 256;

/** Ends an exchange. It may be called any number of times; the first outcome counts. */
type Leave = (outcome: ProxyOutcome) => void;

/** Requests that go on to other servers with data in place of tokens (ADR 28, ADR 30). */
class Proxy {
  readonly #dependencies: ProxyDependencies;
  readonly #underWay = new TenantShares(mostOfTenant);
  readonly #ending = new Set<Promise<void>>();

  constructor(dependencies: ProxyDependencies) {
    this.#dependencies = dependencies;
  }

  async invoke(raw: RawRequest, context: RequestContext): Promise<Answer> {
    const destination = this.#observingRefusal(() => destinationOf(raw, context.principal));
    const template = await readOutgoing(raw, destination, holderOf(context.principal));
    const requireStanding = ({ principal }: RequestContext) => void destinationOf(raw, principal);
    return this.#within({ raw, destination, template, requireStanding }, context);
  }

  /** To the destination of a configured proxy. @throws NotFoundError */
  async invokeConfigured(id: string, given: RawRequest, context: RequestContext): Promise<Answer> {
    const { tenant } = context.principal;
    const proxy = await this.#dependencies.findProxy(tenant.id, id);
    const destination = urlOf(proxy, given);
    const requireListed = (sender: Sender) => requireAllowed(destination, sender, 'destination', proxy);
    this.#observingRefusal(() => requireListed(context.principal));
    const raw = withoutKey(given);
    const template = await readOutgoing(raw, destination, holderOf(context.principal));
    const requireStanding = async ({ principal }: RequestContext) => {
      requireListed(principal);
      const { revision } = await this.#dependencies.findProxy(tenant.id, id);
      if (revision !== proxy.revision)
        throw new ConflictError('conflict', 'The proxy was changed while the request was under way.');
    };
    return this.#within({ raw, destination, proxy, template, requireStanding }, context);
  }

  /** Counts destinations that are not allowed. @throws what `decide` throws */
  #observingRefusal<Result>(decide: () => Result): Result {
    try {
      return decide();
    } catch (error) {
      if (error instanceof FieldForbiddenError) this.#dependencies.observe()('refused');
      throw error;
    }
  }

  async #within(going: Going, context: RequestContext): Promise<Answer> {
    const leave = this.#enter(holderOf(context.principal));
    try {
      return await this.#exchange(going, context, leave);
    } catch (error) {
      leave('not-sent');
      throw asRefusal(error);
    }
  }

  #enter(holder: Holder): Leave {
    const observed = this.#dependencies.observe();
    if (!this.#underWay.allows(holder)) {
      observed('too-many');
      throw new UnavailableError(
        'Too many requests of the application, or of its tenant, are under way. Nothing was sent; try again.',
      );
    }
    this.#underWay.take(holder);
    let isOver = false;
    return (outcome) => {
      if (isOver) return;
      isOver = true;
      observed(outcome);
      this.#underWay.giveBack(holder);
    };
  }

  async #exchange(asked: Going, context: RequestContext, leave: Leave): Promise<Answer> {
    const { raw, destination, proxy, template } = asked;
    const { audit, takeTokens } = this.#dependencies;
    const fill = (tokens: ReadonlyMap<string, DetokenizedToken>) => this.#filled(asked, tokens, context);
    const { use, madeAt, cvcEndsAt, made } = await takeTokens(template.references, context, fill);
    const going: Leaving = { ...asked, madeAt };
    const tokenIds = [...template.references.tokens.keys()];
    const { method } = raw;
    const exchange = new Exchange({ audit, context, destination, method, tokenIds, proxyId: proxy?.id });
    // The use of the values is recorded in any case: an expression that fails also reveals something about them.
    const position = await exchange.begin(use).catch((cause: unknown) => {
      throw new UnavailableError('The request cannot be recorded now. Nothing was sent; try again.', {
        cause,
      });
    });
    const refusals = new Refusals();
    const requireSendable = () => refusals.keep(decisions.requireSendable());
    const requireActing = () => refusals.keep(decisions.requireActing());
    const decided = { requireSendable, requireActing, signal: raw.signal };
    const coded = { proxy, exchangeId: exchange.id, tokenIds, cvcEndsAt, ...decided };
    const code: ProxyCode = new ProxyCode(this.#dependencies, coded, context);
    const decisions: ExchangeDecisions = new ExchangeDecisions(this.#dependencies, going, code, context);
    try {
      const filled = await made;
      context.waitsForOthers();
      const leaving = await code.request(filled);
      const answer = await this.#dependencies.send({
        ...withoutEmptyBody(leaving),
        tenantId: context.principal.tenant.id,
        signal: raw.signal,
        // Decided when the connection is open, because a server may delay it for seconds.
        permit: () => decisions.requireSendable(),
      });
      exchange.sent(leaving.body.length, answer);
      const shown = await code.answer(answer);
      await decisions.requireShown().catch((error: unknown) => {
        shown.body.on('error', () => undefined).destroy();
        throw error;
      });
      const body = exchange.watch(shown, (failure) => {
        leave(outcomeOf(failure));
        this.#end(exchange, failure, context);
      });
      return { position, stream: { status: shown.status, headers: shown.headers, body } };
    } catch (error) {
      const failure = exchange.failureBy(error);
      leave(outcomeOf(failure));
      this.#end(exchange, failure, context);
      const first = refusals.first ?? error;
      if (!code.hasRun) throw first;
      await decisions.requireShown();
      // The code may have sent requests.
      throwAfterWork(first);
    }
  }

  /** The request with data in place of its expressions. @throws DomainError */
  #filled(
    { template, proxy }: Going,
    tokens: ReadonlyMap<string, DetokenizedToken>,
    context: RequestContext,
  ): Promise<Filled> {
    const { expressions, guess } = this.#dependencies;
    const fill = async () => {
      const budget = expressions.of(context.identity, holderOf(context.principal));
      const outgoing = await template.fill(budget, tokens);
      return proxy?.requestCode === undefined
        ? { outgoing }
        : { outgoing, args: argumentsOf(outgoing, proxy) };
    };
    return template.references.hasFilters ? guess(context, tellsOfData, fill) : fill();
  }

  /** The caller does not wait for this record. When it cannot be written, the log lacks it. */
  #end(exchange: Exchange, failure: string | undefined, { traceId }: RequestContext): void {
    const ending = exchange
      .end(failure)
      .catch((error: unknown) =>
        this.#dependencies.logger.warn(
          { trace_id: traceId, operation: 'proxy', ...errorFields(error) },
          'the end of an exchange with another server is not recorded',
        ),
      )
      .finally(() => this.#ending.delete(ending));
    this.#ending.add(ending);
  }

  async close(): Promise<void> {
    await Promise.all(this.#ending);
  }
}

/** The syntax was checked before, so such an error depends on what the expressions found in the data. */
const tellsOfData = (error: unknown): boolean => error instanceof DomainError && error.status < 500;

export function createProxyHandlers(dependencies: ProxyDependencies): ProxyHandlers {
  const proxy = new Proxy(dependencies);
  return {
    handlers: {
      proxy: ({ body }, context) => proxy.invoke(body, context),
      async invokeProxy({ params, body }, context) {
        try {
          return await proxy.invokeConfigured(params.id, body, context);
        } catch (error) {
          if (error instanceof CustomAnswerError) return error.answer;
          throw error;
        }
      },
    },
    close: () => proxy.close(),
  };
}
