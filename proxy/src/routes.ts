import {
  DomainError,
  UnavailableError,
  type ForbiddenError,
  type RawRequest,
  type VaultEvent,
} from '@token-vault/contracts';
import type { EgressAnswer, EgressSend } from '@token-vault/egress';
import type { DetokenizedToken, Expressions, TokenReferences } from '@token-vault/expressions';
import { errorFields, type Logger } from '@token-vault/observability';
import type { AuditTrail, HandlersOf, Answer, RequestContext } from '@token-vault/operations';
import { destinationOf } from './destination.ts';
import { Exchange } from './exchange.ts';
import { readOutgoing, type Outgoing, type OutgoingTemplate } from './outgoing.ts';
import { asRefusal } from './refusal.ts';

/** Tokens that the caller may use, checked and being opened. */
interface TakenTokens {
  /** Durable before anything of them leaves. */
  readonly use: readonly VaultEvent[];
  readonly tokens: Promise<ReadonlyMap<string, DetokenizedToken>>;
}

/** Runs an evaluation over data that the caller may not see. Its errors count as misses. @throws RateLimitedError */
type Guess = <Result>(
  context: RequestContext,
  isMiss: (error: unknown) => boolean,
  work: () => Promise<Result>,
) => Promise<Result>;

export interface ProxyDependencies {
  readonly guess: Guess;
  readonly audit: AuditTrail;
  readonly expressions: Expressions;
  readonly logger: Logger;
  readonly send: EgressSend;
  /** @throws ValidationError for a token that is not there, ForbiddenError for one that the caller may not use */
  readonly takeTokens: (references: TokenReferences, context: RequestContext) => Promise<TakenTokens>;
  /** @throws as `takeTokens` */
  readonly checkTokens: (references: TokenReferences, context: RequestContext) => Promise<void>;
  /** About the first of these tokens that the caller may not use now. Tokens that are gone are left out. */
  readonly refuseUse: (
    tokenIds: readonly string[],
    context: RequestContext,
  ) => Promise<ForbiddenError | undefined>;
}

export interface ProxyHandlers {
  readonly handlers: HandlersOf<'proxy'>;
  /** Resolves when the end of every exchange is recorded. Call it when no new requests come. */
  close(): Promise<void>;
}

/** Exchanges of one tenant at once, in this process: slow destinations must not take the connections of other tenants. */
const mostOfTenant = 128;

/** Requests that go on to other servers with data in place of tokens (ADR 28). */
class Proxy {
  readonly #dependencies: ProxyDependencies;
  readonly #underWay = new Map<string, number>();
  readonly #ending = new Set<Promise<void>>();

  constructor(dependencies: ProxyDependencies) {
    this.#dependencies = dependencies;
  }

  async invoke(raw: RawRequest, context: RequestContext): Promise<Answer> {
    const { tenant } = context.principal;
    const destination = destinationOf(raw, tenant);
    const template = await readOutgoing(raw, destination, tenant.id);
    const leave = this.#enter(tenant.id);
    try {
      return await this.#exchange({ raw, destination, template }, context, leave);
    } catch (error) {
      leave();
      throw asRefusal(error);
    }
  }

  /** @returns what ends the exchange; any number of calls */
  #enter(tenantId: string): () => void {
    const count = this.#underWay.get(tenantId) ?? 0;
    if (count >= mostOfTenant)
      throw new UnavailableError(
        'Too many requests of the tenant are under way. Nothing was sent; try again.',
      );
    this.#underWay.set(tenantId, count + 1);
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      const left = (this.#underWay.get(tenantId) ?? 1) - 1;
      if (left > 0) this.#underWay.set(tenantId, left);
      else this.#underWay.delete(tenantId);
    };
  }

  async #exchange(
    { raw, destination, template }: { raw: RawRequest; destination: URL; template: OutgoingTemplate },
    context: RequestContext,
    leave: () => void,
  ): Promise<Answer> {
    const { audit, takeTokens, checkTokens, send, expressions, guess } = this.#dependencies;
    const tenantId = context.principal.tenant.id;
    const taken = await takeTokens(template.references, context);
    const tokenIds = [...template.references.tokens.keys()];
    const exchange = new Exchange({ audit, context, destination, method: raw.method, tokenIds });
    const fill = async (tokens: Awaited<TakenTokens['tokens']>) =>
      template.fill(expressions.of(context.identity, tenantId), tokens);
    const filling = taken.tokens.then((tokens) =>
      template.references.hasFilters ? guess(context, tellsOfData, () => fill(tokens)) : fill(tokens),
    );
    filling.catch(() => undefined);
    // Whatever becomes of the values, that they were taken is recorded: an expression that fails tells of them too.
    const position = await exchange.begin(taken.use).catch((cause: unknown) => {
      throw new UnavailableError('The request cannot be recorded now. Nothing was sent; try again.', {
        cause,
      });
    });
    try {
      const outgoing = await filling;
      context.waitsForOthers();
      // Rights, destination and tokens are decided again when the connection is there: a server may hold it up for seconds.
      const permit = async (): Promise<void> => {
        const renewed = await context.renewed();
        if (!renewed) return;
        destinationOf(raw, renewed.principal.tenant);
        await checkTokens(template.references, renewed);
      };
      const answer = await send({ ...withoutEmptyBody(outgoing), tenantId, signal: raw.signal, permit });
      exchange.sent(outgoing.body.length, answer);
      await this.#requireRights(tokenIds, answer, context);
      const body = exchange.watch(answer, (failure) => {
        leave();
        this.#end(exchange, failure, context);
      });
      return { position, stream: { status: answer.status, headers: answer.headers, body } };
    } catch (error) {
      this.#end(exchange, exchange.failureBy(error), context);
      throw error;
    }
  }

  /** An answer may hold the data that was sent. It is given by the present rights. @throws UnauthenticatedError, ForbiddenError */
  async #requireRights(
    tokenIds: readonly string[],
    { body }: EgressAnswer,
    context: RequestContext,
  ): Promise<void> {
    try {
      const renewed = await context.renewed();
      const refusal = renewed && (await this.#dependencies.refuseUse(tokenIds, renewed));
      if (refusal) throw refusal;
    } catch (error) {
      body.on('error', () => undefined).destroy();
      throw error;
    }
  }

  /** The caller does not wait for it, and the log does without it when it cannot be written. */
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

/** A GET with a body of no bytes would be sent with a length. */
const withoutEmptyBody = ({ body, ...rest }: Outgoing) => (body.length === 0 ? rest : { ...rest, body });

export function createProxyHandlers(dependencies: ProxyDependencies): ProxyHandlers {
  const proxy = new Proxy(dependencies);
  return {
    handlers: { proxy: ({ body }, context) => proxy.invoke(body, context) },
    close: () => proxy.close(),
  };
}
