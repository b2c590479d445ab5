import {
  DomainError,
  invocationPlace,
  invocationStatement,
  newId,
  ReactorFailed,
  ReactorInvoked,
  streams,
  UnavailableError,
  ValidationError,
  type DataOf,
  type Json,
} from '@token-vault/contracts';
import { keyIdOf, secret, type KeyRing, type SealedValue } from '@token-vault/crypto';
import { RevisionConflictError, type EventStore, type Position } from '@token-vault/event-store';
import type { TokenReferences } from '@token-vault/expressions';
import type { Answer, RequestContext } from '@token-vault/service-kit';
import { isRefusal } from '../aggregates/refusal.ts';
import { loadReactor } from '../reactors/load.ts';
import { reactorOwner } from '../reactors/owner.ts';
import { answerFrom } from './answers.ts';
import type { AwaitedOutcome, InvocationOutcomes } from './outcomes.ts';
import { readReactRequest, type ReactBody, type ReactRequest } from './request.ts';
import { loadInvocation, requireGenuine, type OutcomeEvent } from './state.ts';
import { createTokenUse, type TokenUse, type TokenUseDependencies } from './token-use.ts';

export interface InvocationDependencies extends TokenUseDependencies {
  readonly outcomes: InvocationOutcomes;
  /** Callbacks may go to plain http where the operator has opened private addresses (VAULT_EGRESS_ALLOW). */
  readonly allowsPlainHttp: boolean;
  /** How long a synchronous caller waits for a runner to begin; 30 s by default. */
  readonly startWithinMs?: number;
}

/** An invocation that is about to be appended. */
interface Draft {
  readonly id: string;
  readonly reactorId: string;
  readonly reactorRevision: number;
  readonly depth: number;
  readonly request: ReactRequest;
}

/** As arguments that name these tokens. */
const referencesTo = (tokenIds: readonly string[]): TokenReferences => ({
  tokens: new Map(tokenIds.map((id) => [id, 'args'])),
  ambiguous: new Map(),
});

/** Each level holds a process of the sandbox while it waits: deeper ones could take a tenant's last and wait for each other. */
const maxDepth = 3;
/** Keys of arguments go when the run is over; these times are for what is never run, and bound the rest. */
const keptMs = 7 * 24 * 60 * 60 * 1000;
const startWithinMsByDefault = 30_000;
/** For the sweeper to find a run whose runner is gone. */
const waitAfterDeadlineMs = 10_000;

/** Invokes reactors (interface.md, react; architecture.md, Reactors). */
export class Invocations {
  readonly #store: EventStore;
  readonly #keyRing: KeyRing;
  readonly #tokenUse: TokenUse;
  readonly #outcomes: InvocationOutcomes;
  readonly #allowsPlainHttp: boolean;
  readonly #startWithinMs: number;

  constructor(dependencies: InvocationDependencies) {
    this.#store = dependencies.store;
    this.#keyRing = dependencies.keyRing;
    this.#tokenUse = createTokenUse(dependencies);
    this.#outcomes = dependencies.outcomes;
    this.#allowsPlainHttp = dependencies.allowsPlainHttp;
    this.#startWithinMs = dependencies.startWithinMs ?? startWithinMsByDefault;
  }

  /**
   * Runs a reactor and answers what it gave; with a callback URL only sees to it that it will be run.
   * @throws ValidationError, ForbiddenError, NotFoundError, EnterpriseRequiredError before anything is stored; DomainError
   * with the status the run failed with; UnavailableError when no runner began it, which then never happens.
   */
  async react(reactorId: string, body: ReactBody, context: RequestContext): Promise<Answer> {
    const tenantId = context.principal.tenant.id;
    const request = readReactRequest(body, context, this.#allowsPlainHttp);
    // Read with the reactor; what is wrong with them is told after what is wrong with it.
    const checked = this.#tokenUse.check(request.references, context);
    checked.catch(() => undefined);
    const dependencies = { store: this.#store, keyRing: this.#keyRing };
    const loaded = await loadReactor(dependencies, tenantId, reactorId);
    const depth = await this.#depthOf(context);
    await checked;
    const { id, begun } = await this.#begunOrFree(context);
    const usedTokenIds = begun?.token_ids ?? [...request.references.tokens.keys()];
    // The body of a repeat is not compared (rules.md §2): the tokens that the run began with decide, not those that it names.
    if (begun) await this.#tokenUse.check(referencesTo(usedTokenIds), context);
    const draft = { id, reactorId, reactorRevision: loaded.revision, depth, request };
    if (request.callbackUrl !== undefined) {
      const position = await this.#append(draft, context);
      return { status: 202, position };
    }
    const awaited = await this.#outcomes.expect(id, this.#streamOf(id, context));
    try {
      await this.#append(draft, context);
      const outcome = await this.#outcomeOf(draft, awaited, context);
      const answer = await answerFrom(this.#keyRing, { tenantId, invocationId: id }, outcome, usedTokenIds);
      // Its code may have told of its configuration.
      return { ...answer, endsWith: reactorOwner(this.#store, tenantId, reactorId) };
    } finally {
      awaited.forget();
    }
  }

  /** An invocation by reactor code names the invocation it comes from as its cause. */
  async #depthOf(context: RequestContext): Promise<number> {
    const { tenant_id: tenantId, causation_id: parentId } = context.metadata;
    if (parentId === undefined) return 0;
    const { state } = await loadInvocation(this.#store, streams.invocation(tenantId, parentId));
    const depth = state.kind === 'absent' ? 0 : state.invoked.depth + 1;
    if (depth > maxDepth)
      throw ValidationError.of('reactor', `is invoked by reactors more than ${maxDepth} levels deep`);
    return depth;
  }

  /** A repeated request takes up the run it began, unless that failed: then it is a new one (rules.md §2). */
  async #begunOrFree(context: RequestContext): Promise<{ id: string; begun?: DataOf<'ReactorInvoked'> }> {
    const id = context.newEntityId();
    if (!context.isRepeatable) return { id };
    const { state } = await loadInvocation(this.#store, this.#streamOf(id, context));
    if (state.kind === 'absent') return { id };
    if (state.kind === 'over' && state.outcome.type === 'ReactorFailed') return { id: newId() };
    requireGenuine(id, state, await this.#keyRing.hashes(context.principal.tenant.id));
    return { id, begun: state.invoked };
  }

  #streamOf(id: string, context: RequestContext): string {
    return streams.invocation(context.principal.tenant.id, id);
  }

  /** The repeat of an append that was done before changes nothing, and the keys it brought go. */
  async #append(draft: Draft, context: RequestContext): Promise<Position> {
    const { id, request } = draft;
    const { callbackUrl } = request;
    const [args, callback] = await Promise.all([
      this.#seal(id, 'args', request.args, context),
      callbackUrl === undefined ? undefined : this.#seal(id, 'callback_url', callbackUrl, context),
    ]);
    const data = {
      invocation_id: id,
      reactor_id: draft.reactorId,
      reactor_revision: draft.reactorRevision,
      mode: callbackUrl === undefined ? ('sync' as const) : ('async' as const),
      args,
      token_ids: [...request.references.tokens.keys()],
      timeout_ms: request.timeoutMs,
      ...(callback === undefined ? {} : { callback_url: callback }),
      depth: draft.depth,
    };
    const keyIds = [args, callback].filter((sealed) => sealed !== undefined).map(keyIdOf);
    const hashes = await this.#keyRing.hashes(context.principal.tenant.id);
    const signature = hashes.sign(invocationStatement(data, context.metadata), 0);
    const drop = () => this.#keyRing.destroyKeys(context.principal.tenant.id, keyIds);
    try {
      const stream = this.#streamOf(id, context);
      const { position } = await this.#store.append(
        stream,
        [context.event(ReactorInvoked, { ...data, signature })],
        'no-stream',
        { keys: keyIds },
      );
      if (context.isRepeatable) {
        const { state } = await loadInvocation(this.#store, stream);
        if (state.kind !== 'absent' && state.invoked.args !== args) await drop();
      }
      return position;
    } catch (error) {
      if (isRefusal(error)) await drop();
      throw error;
    }
  }

  async #seal(
    id: string,
    field: 'args' | 'callback_url' | 'outcome',
    value: Json,
    context: RequestContext,
  ): Promise<SealedValue> {
    const place = invocationPlace(context.principal.tenant.id, id, field);
    const destroyAfter = new Date(context.now.getTime() + keptMs);
    return this.#keyRing.sealNew(place, secret(value), { destroyAfter });
  }

  async #outcomeOf(draft: Draft, awaited: AwaitedOutcome, context: RequestContext): Promise<OutcomeEvent> {
    // The repeat of a request whose run is over already: that outcome came before anybody listened.
    const early = context.isRepeatable ? await this.#recordedOutcome(draft.id, context) : undefined;
    const first = early ?? (await within(awaited.arrived, this.#startWithinMs));
    if (first) return first;
    if (await this.#withdraw(draft, context))
      throw new UnavailableError('No runner began the reactor in time; it was not run.');
    const { state } = await loadInvocation(this.#store, this.#streamOf(draft.id, context));
    if (state.kind === 'over') return state.outcome;
    const deadline = state.kind === 'running' ? state.deadline.getTime() : context.now.getTime();
    const left = Math.max(0, deadline - context.now.getTime()) + waitAfterDeadlineMs;
    const late = (await within(awaited.arrived, left)) ?? (await this.#recordedOutcome(draft.id, context));
    if (late) return late;
    throw new DomainError('reactor_failed', 'The reactor gave no result in time (timeout).');
  }

  async #recordedOutcome(id: string, context: RequestContext): Promise<OutcomeEvent | undefined> {
    const { state } = await loadInvocation(this.#store, this.#streamOf(id, context));
    return state.kind === 'over' ? state.outcome : undefined;
  }

  /** Ends an invocation that nobody has begun, so that it is certain it will not be run. False when somebody has. */
  async #withdraw({ id, reactorId }: Draft, context: RequestContext): Promise<boolean> {
    const detail = 'No runner began the reactor in time; it was not run.';
    const problem = await this.#seal(id, 'outcome', { detail, errors: {} }, context);
    const data = {
      invocation_id: id,
      reactor_id: reactorId,
      mode: 'sync' as const,
      status: 503,
      reason: 'not-started',
      problem,
    };
    try {
      const keys = [keyIdOf(problem)];
      await this.#store.append(this.#streamOf(id, context), [context.event(ReactorFailed, data)], 0, {
        keys,
      });
      return true;
    } catch (error) {
      if (error instanceof RevisionConflictError) return false;
      throw error;
    }
  }
}

/** What the promise gives, or undefined after `ms`. */
async function within<Result>(promise: Promise<Result>, ms: number): Promise<Result | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms);
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}
