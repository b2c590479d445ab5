import {
  DomainError,
  firstCvcEnd,
  invocationPlace,
  ReactorFailed,
  streams,
  KnownOutcomeError,
  ValidationError,
  type InvocationField,
  type JsonInput,
} from '@token-vault/contracts';
import { secret, type KeyRing, type SealedValue, type Secret } from '@token-vault/crypto';
import type { EventStore, Position } from '@token-vault/event-store';
import type { Answer, RequestContext } from '@token-vault/operations';
import { execute, type Executed } from '../aggregates/decider.ts';
import { loadReactor } from '../reactors/load.ts';
import { reactorOwner } from '../reactors/owner.ts';
import { createSeenTokens, type SeenTokensDependencies } from '../tokens/seen.ts';
import { answerNow, type AnswerDependencies } from './answers.ts';
import { begunBefore, type Begun } from './begun.ts';
import { createOwnerDecision } from './code-owner.ts';
import { invocationDecider, newKeyIds, type NewInvocation } from './decider.ts';
import type { AwaitedOutcome, InvocationOutcomes } from './outcomes.ts';
import { readReactRequest, type ReactBody, type ReactRequest } from './request.ts';
import { invocationSigner, loadInvocation, type InvocationState, type OutcomeEvent } from './state.ts';
import { createTokenUse, type TokenUse, type TokenUseDependencies } from './token-use.ts';

export interface InvocationDependencies extends TokenUseDependencies, SeenTokensDependencies {
  readonly keyRing: KeyRing;
  readonly outcomes: InvocationOutcomes;
  /** A callback may use plain http when the operator has opened private addresses (VAULT_EGRESS_ALLOW). */
  readonly allowsPlainHttp: boolean;
  /** How long a synchronous caller waits for a runner to start the run, in milliseconds. 30,000 by default. */
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

interface BegunInvocation {
  readonly position: Position | undefined;
  /** The invocation that an earlier attempt of the request appended. */
  readonly begun?: Begun | undefined;
}

const sinceOf = ({ metadata }: Begun): Date => new Date(metadata.occurred_at);

const notStarted = 'No runner began the reactor in time; it was not run.';

/** Each level holds a process of the sandbox while it waits (ADR 32). */
const maxDepth = 3;
/** The keys of arguments are destroyed when the run is over. This time applies to invocations that never run. */
const keptMs = 7 * 24 * 60 * 60 * 1000;
const startWithinMsByDefault = 30_000;
/** Time for the sweeper to find a run whose runner is gone. */
const waitAfterDeadlineMs = 10_000;

/** Invokes reactors (interface.md, react; architecture.md, Reactors). */
export class Invocations {
  readonly #store: EventStore;
  readonly #keyRing: KeyRing;
  readonly #tokenUse: TokenUse;
  readonly #answering: AnswerDependencies;
  readonly #outcomes: InvocationOutcomes;
  readonly #allowsPlainHttp: boolean;
  readonly #startWithinMs: number;

  constructor(dependencies: InvocationDependencies) {
    this.#store = dependencies.store;
    this.#keyRing = dependencies.keyRing;
    this.#tokenUse = createTokenUse(dependencies);
    const decisionOnSeen = createSeenTokens(dependencies);
    const refuseOwner = createOwnerDecision(dependencies);
    this.#answering = { ...dependencies, tokenUse: this.#tokenUse, decisionOnSeen, refuseOwner };
    this.#outcomes = dependencies.outcomes;
    this.#allowsPlainHttp = dependencies.allowsPlainHttp;
    this.#startWithinMs = dependencies.startWithinMs ?? startWithinMsByDefault;
  }

  /**
   * Runs a reactor and answers its result. With a callback URL it only queues the run.
   * @throws ValidationError, ForbiddenError, NotFoundError, EnterpriseRequiredError before anything is stored;
   * DomainError with the status of a failed run; KnownOutcomeError when no runner started the run, which then never
   * happens.
   */
  async react(reactorId: string, body: ReactBody, context: RequestContext): Promise<Answer> {
    const tenantId = context.principal.tenant.id;
    const request = readReactRequest(body, context, this.#allowsPlainHttp);
    // The check runs while the reactor is read. An error of the reactor is reported before an error of the tokens.
    const checked = this.#tokenUse.check(request.references, context);
    checked.catch(() => undefined);
    const dependencies = { store: this.#store, keyRing: this.#keyRing };
    const { revision } = await loadReactor(dependencies, tenantId, reactorId);
    const depth = depthOf(context);
    await checked;
    const { id, begun: earlier } = await this.#begunOrFree(reactorId, context);
    const draft = { id, reactorId, reactorRevision: revision, depth, request };
    if (request.callbackUrl !== undefined) {
      const { position, begun } = await this.#begin(draft, earlier, context);
      return { status: 202, position, invocationId: id, isRepeat: begun !== undefined };
    }
    const awaited = await this.#outcomes.expect(id, this.#streamOf(id, context));
    try {
      const { begun } = await this.#begin(draft, earlier, context);
      const usedTokenIds = begun?.invoked.token_ids ?? [...request.references.tokens.keys()];
      const since = begun ? sinceOf(begun) : context.now;
      context.waitsForOthers();
      const outcome = await this.#outcomeOf(draft, awaited, context);
      const reactorRevision = begun?.invoked.reactor_revision ?? revision;
      const asked = { tenantId, invocationId: id, reactorId, reactorRevision };
      const ended = { asked, outcome, usedTokenIds, since, isFirst: begun === undefined };
      const answer = await answerNow(this.#answering, ended, context);
      // The output of the code may contain the configuration of the reactor.
      const endsWith = reactorOwner(this.#store, tenantId, reactorId);
      return { ...answer, invocationId: id, endsWith, isRepeat: begun !== undefined };
    } finally {
      awaited.forget();
    }
  }

  /**
   * A repeated request continues the run that it began. When that run failed, a new run begins (rules.md §2), whose id also follows from the
   * idempotency key, so that a further repeat finds it. @throws as `begunBefore`
   */
  async #begunOrFree(reactorId: string, context: RequestContext): Promise<{ id: string; begun?: Begun }> {
    for (;;) {
      const id = context.newEntityId();
      if (!context.isRepeatable) return { id };
      const { state } = await loadInvocation(this.#store, this.#streamOf(id, context));
      if (state.kind === 'absent') return { id };
      if (state.kind === 'over' && state.outcome.type === 'ReactorFailed') continue;
      return { id, begun: await begunBefore(this.#keyRing, { id, reactorId }, state, context) };
    }
  }

  #streamOf(id: string, context: RequestContext): string {
    return streams.invocation(context.principal.tenant.id, id);
  }

  /**
   * The body of a repeat is not compared (rules.md §2). `begun` is the invocation that exists already. Its tokens
   * decide, not the tokens that the repeat names.
   */
  async #begin(draft: Draft, earlier: Begun | undefined, context: RequestContext): Promise<BegunInvocation> {
    const { position, begun } = earlier
      ? { position: undefined, begun: earlier }
      : await this.#append(draft, context);
    context.hasInvoked(draft.id);
    if (begun) {
      // The answer of the run is decided once more, by tokens that are read at one moment.
      const decideUse = await this.#tokenUse.decisionOn(begun.invoked.token_ids, sinceOf(begun), context);
      const refusal = decideUse((await context.renewed()) ?? context);
      if (refusal) throw refusal;
    }
    return { position, begun };
  }

  /**
   * When another attempt of the request has appended already, this append changes nothing and its new keys are
   * destroyed.
   */
  async #append(draft: Draft, context: RequestContext): Promise<BegunInvocation> {
    const invoked = await this.#invokedOf(draft, context);
    const command = { kind: 'invoke', invoked } as const;
    const execution = this.#executionOf(draft.id, context);
    const { position } = await execute({ ...execution, command, isCreation: true });
    if (!context.isRepeatable) return { position };
    const { state } = await loadInvocation(this.#store, execution.stream);
    if (state.kind === 'absent' || state.invoked.args === invoked.args) return { position };
    await execution.newKeys.destroy(newKeyIds(command));
    return { position, begun: await begunBefore(this.#keyRing, draft, state, context) };
  }

  async #invokedOf({ id, request, ...draft }: Draft, context: RequestContext): Promise<NewInvocation> {
    const { callbackUrl } = request;
    // Code acts for its application without a key.
    const keyHash = context.parents.length > 0 ? undefined : context.principal.keyHash;
    const [args, callback, parents] = await Promise.all([
      this.#seal(id, 'args', request.args, context),
      callbackUrl && this.#seal(id, 'callback_url', callbackUrl, context),
      context.parents.length === 0 ? undefined : this.#seal(id, 'parents', secret(context.parents), context),
    ]);
    return {
      invocation_id: id,
      reactor_id: draft.reactorId,
      reactor_revision: draft.reactorRevision,
      mode: callbackUrl === undefined ? 'sync' : 'async',
      args,
      token_ids: [...request.references.tokens.keys()],
      timeout_ms: request.timeoutMs,
      ...(callback === undefined ? {} : { callback_url: callback }),
      depth: draft.depth,
      ...(keyHash === undefined ? {} : { key_hash: keyHash }),
      ...(parents === undefined ? {} : { parents }),
    };
  }

  #executionOf(id: string, context: RequestContext) {
    const tenantId = context.principal.tenant.id;
    return {
      store: this.#store,
      stream: streams.invocation(tenantId, id),
      decider: invocationDecider,
      event: context.event.bind(context),
      signing: { signer: invocationSigner, hashes: () => this.#keyRing.hashes(tenantId) },
      newKeys: {
        idsOf: newKeyIds,
        destroy: (keyIds: readonly string[]) => this.#keyRing.destroyKeys(tenantId, keyIds),
      },
    };
  }

  async #seal(
    id: string,
    field: InvocationField,
    value: Secret<JsonInput>,
    context: RequestContext,
  ): Promise<SealedValue> {
    const place = invocationPlace(context.principal.tenant.id, id, field);
    const latest = new Date(context.now.getTime() + keptMs).toISOString();
    // Code that asks for a run may put a cvc that it was given into the arguments and the URL.
    const ends = [latest, ...context.parents.map(({ cvcEndsAt }) => cvcEndsAt)];
    const destroyAfter = new Date(firstCvcEnd(ends) ?? latest);
    return this.#keyRing.sealNew(place, value, { destroyAfter });
  }

  async #outcomeOf(draft: Draft, awaited: AwaitedOutcome, context: RequestContext): Promise<OutcomeEvent> {
    // The run of a repeated request may be over already. Its outcome then came before this process listened.
    const early = context.isRepeatable ? await this.#recordedOutcome(draft.id, context) : undefined;
    const first = early ?? (await within(awaited.arrived, this.#startWithinMs));
    if (first) return first;
    const { before, position } = await this.#withdraw(draft.id, context);
    if (position !== undefined) throw new KnownOutcomeError(notStarted);
    if (before.kind === 'over') return before.outcome;
    const deadline = before.kind === 'running' ? before.deadline.getTime() : context.now.getTime();
    const left = Math.max(0, deadline - context.now.getTime()) + waitAfterDeadlineMs;
    const late = (await within(awaited.arrived, left)) ?? (await this.#recordedOutcome(draft.id, context));
    if (late) return late;
    throw new DomainError('reactor_failed', 'The reactor gave no result in time (timeout).');
  }

  async #recordedOutcome(id: string, context: RequestContext): Promise<OutcomeEvent | undefined> {
    const { state } = await loadInvocation(this.#store, this.#streamOf(id, context));
    return state.kind === 'over' ? state.outcome : undefined;
  }

  /** Changes nothing when a runner has started the invocation. */
  #withdraw(id: string, context: RequestContext): Promise<Executed<InvocationState>> {
    const value = { detail: notStarted, errors: {} };
    const content = secret({ type: ReactorFailed.type, value, seen: [], isSeenComplete: true });
    return execute({
      ...this.#executionOf(id, context),
      command: async () => ({
        kind: 'withdraw' as const,
        problem: await this.#seal(id, 'outcome_with_tokens', content, context),
      }),
    });
  }
}

/** The number of runs that the invocation is nested in, of reactors and of a proxy. @throws ValidationError */
function depthOf({ parents }: RequestContext): number {
  if (parents.length > maxDepth)
    throw ValidationError.of('reactor', `is invoked by code more than ${maxDepth} levels deep`);
  return parents.length;
}

/** The value of the promise, or undefined after `ms`. */
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
