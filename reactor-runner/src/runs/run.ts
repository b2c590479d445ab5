import {
  AlteredRecordError,
  DomainError,
  invocationPlace,
  newId,
  ReactorStarted,
  type Json,
  type VaultEvent,
} from '@token-vault/contracts';
import { KeyDestroyedError, type SealedValue } from '@token-vault/crypto';
import { RevisionConflictError } from '@token-vault/event-store';
import { substituteTokens, type Expressions } from '@token-vault/expressions';
import { errorFields, type Logger, type Spans } from '@token-vault/service-kit';
import type { EgressFetch } from '../egress/index.ts';
import type { SandboxPool } from '../sandbox/index.ts';
import { createLanes } from './lanes.ts';
import {
  isGenuine,
  readHistory,
  runnerEvent,
  type Invocation,
  type InvocationHistory,
} from './invocation.ts';
import { openForInvoker } from './invoker.ts';
import { failureOf, failureOfRun, type InvocationOutcome } from './outcome.ts';
import type { FindInvoker, OpenedTokens, OpenTokens, RunOrigin, VaultOperations } from './ports.ts';
import { createReactorContents, openConfiguration, type ReactorContents } from './reactor-content.ts';
import {
  createArgumentDestruction,
  createOutcomeKey,
  recordOutcome,
  untilAnswered,
  type RecordDependencies,
} from './record.ts';
import { SeenTokens } from './seen-tokens.ts';
import { serviceRequest } from './service-calls.ts';

export interface RunDependencies extends RecordDependencies {
  readonly logger: Logger;
  readonly findInvoker: FindInvoker;
  readonly openTokens: OpenTokens;
  readonly expressions: Expressions;
  readonly operations: VaultOperations;
  readonly sandbox: Pick<SandboxPool, 'run'>;
  readonly fetch: EgressFetch;
  /** Told of each run, as a step of the request that asked for it. */
  readonly spans?: Spans;
}

/** Not begun: it is brought again, here after the next start or elsewhere. */
export class RunnerStoppedError extends Error {
  readonly code = 'runner_stopped';
}

/** Everything code is given. */
interface Input {
  readonly code: string;
  readonly args: Json;
  readonly configuration: Readonly<Record<string, string>>;
  readonly applicationId: string | undefined;
}

/** Invocations of one tenant that are claimed at once; more than it ever gets processes. */
const runsOfTenant = 8;
/** How long a claimed run may wait for a process: as long as two others of its tenant take, and some. Then it is given up. */
const queueMs = (timeoutMs: number): number => 30_000 + 2 * timeoutMs;
/** After its time, for tokenizing output and appending the outcome. */
const recordMs = 15_000;

/** Runs invocations: each once, whatever happens to runners (architecture.md, Reactors). */
export class Runs {
  readonly #dependencies: RunDependencies;
  readonly #contents: ReactorContents;
  readonly #destroyArguments: (invocation: Invocation) => Promise<void>;
  readonly #inLane = createLanes(runsOfTenant);
  readonly #runnerId = newId();
  /** A list: a Set would keep alive what it no longer holds (ADR 13). */
  readonly #underWay: AbortController[] = [];
  #isStopped = false;

  constructor(dependencies: RunDependencies) {
    this.#dependencies = dependencies;
    this.#contents = createReactorContents(dependencies.store, dependencies.keyRing);
    this.#destroyArguments = createArgumentDestruction(dependencies.keyRing);
  }

  /** Kills what runs; each still gets its outcome. */
  stop(): void {
    this.#isStopped = true;
    this.#underWay.forEach((abort) => abort.abort());
  }

  /**
   * Runs it unless somebody else has taken it. Resolves when its outcome is in the log, and its arguments are no more.
   * @param onClaimed called when it is claimed: from then on the log sees to it that it ends, whatever becomes of this process
   */
  async handle(
    { invocation, deadline, outcome }: InvocationHistory,
    onClaimed: () => void = () => undefined,
  ): Promise<void> {
    if (!invocation) return;
    if (outcome || (!deadline && (await this.#runInTurn(invocation, onClaimed))))
      await this.#destroyArguments(invocation);
  }

  #runInTurn(invocation: Invocation, onClaimed: () => void): Promise<boolean> {
    const { depth, mode } = invocation.invoked;
    const run = async () =>
      (await isGenuine(this.#dependencies.keyRing, invocation))
        ? this.#run(invocation, onClaimed)
        : this.#refuse(invocation, onClaimed);
    // What a run waits for must not wait for it. And those that nobody waits for have places of their own (backlog.ts).
    return depth > 0 || mode === 'async' ? run() : this.#inLane(invocation.tenantId, run);
  }

  /** Ends it without a token having been opened. Its arguments are left, since it may name the key of something else. */
  async #refuse(invocation: Invocation, onClaimed: () => void): Promise<false> {
    const revision = await this.#claim(invocation, []);
    if (revision === undefined) return false;
    onClaimed();
    const outcome = failureOf(new AlteredRecordError('invocation'), () => undefined);
    await recordOutcome(this.#dependencies, invocation, outcome, revision);
    return false;
  }

  /** Resolves to whether it is over and its arguments may be left. */
  async #run(invocation: Invocation, onClaimed: () => void): Promise<boolean> {
    const { logger, store, findInvoker } = this.#dependencies;
    const { invoked, metadata, stream } = invocation;
    if (this.#isStopped) throw new RunnerStoppedError('the runner takes no more');
    const startMs = Date.now();
    const invoker = findInvoker(invocation.tenantId, metadata.actor, invocation.position);
    const opened = invoker.then((it) => openForInvoker(invocation, it, this.#dependencies));
    const prepared = this.#prepare(invocation, opened);
    prepared.catch(() => undefined);
    // Nobody waits for it: it is not claimed before it is known whether its invoker may still ask for it.
    if (invoked.mode === 'async') await invoker;
    const seen = new SeenTokens();
    const use = await opened.then(
      (tokens) => {
        seen.endBy(tokens.cvcEndsAt);
        return tokens.use;
      },
      () => [],
    );
    const revision = await this.#claim(invocation, use);
    // Delivered again: maybe after a crash between the outcome and the end of the arguments.
    if (revision === undefined) return (await readHistory(store, stream)).outcome !== undefined;
    onClaimed();
    // Made while the code runs: nobody waits for it then.
    const outcomeKey = createOutcomeKey(this.#dependencies, invocation, seen.cvcEndsAt);
    const ended = await prepared
      .then((input) => this.#execute(invocation, input, seen))
      .catch((error: unknown) =>
        failureOf(error, () =>
          logger.error({ trace_id: metadata.trace_id, ...errorFields(error) }, 'a run failed'),
        ),
      );
    const outcome = { ...ended, cvcEndsAt: seen.cvcEndsAt };
    // Nobody waits for it, and once it is over no feed or sweeper comes back to it: what a crash interrupts must still be a lost run.
    const areArgumentsGone = invoked.mode === 'async' && (await this.#argumentsGo(invocation));
    await recordOutcome(this.#dependencies, invocation, outcome, revision, outcomeKey);
    this.#dependencies.spans?.record({
      name: 'run reactor',
      traceId: metadata.trace_id,
      startMs,
      endMs: Date.now(),
      attributes: { 'vault.outcome': outcome.kind },
    });
    return !areArgumentsGone;
  }

  /** False when the key table cannot be reached: then it is tried again after the outcome. */
  #argumentsGo(invocation: Invocation): Promise<boolean> {
    return this.#destroyArguments(invocation).then(
      () => true,
      () => false,
    );
  }

  /**
   * What it appends comes first after what invoked it: the store lets one runner do so. The use of the tokens is part of it: on
   * record before code sees them, or anybody how the arguments fare with them, once however many runners try, at the price of
   * one flush, during which they are opened. Gives the stream's revision.
   */
  async #claim(invocation: Invocation, use: readonly VaultEvent[]): Promise<number | undefined> {
    const { store, clock } = this.#dependencies;
    const { id: invocation_id, invoked, stream } = invocation;
    const now = clock.now();
    const deadline = new Date(
      now.getTime() + queueMs(invoked.timeout_ms) + invoked.timeout_ms + recordMs,
    ).toISOString();
    const data = {
      invocation_id,
      reactor_id: invoked.reactor_id,
      runner_id: this.#runnerId,
      deadline,
    };
    const events = [runnerEvent(invocation, ReactorStarted, data, now), ...use];
    try {
      return (await untilAnswered(() => store.append(stream, events, invocation.revision))).revision;
    } catch (error) {
      if (error instanceof RevisionConflictError) return undefined;
      throw error;
    }
  }

  async #prepare(invocation: Invocation, openedTokens: Promise<OpenedTokens>): Promise<Input> {
    const { keyRing, expressions } = this.#dependencies;
    const { tenantId, id, invoked } = invocation;
    const { reactor_id: reactorId, reactor_revision: revision, args } = invoked;
    const content = this.#contents(tenantId, reactorId, revision);
    const [{ code, applicationId }, configuration, opened, tokens] = await Promise.all([
      content,
      content.then((it) => openConfiguration(keyRing, tenantId, reactorId, it.configuration)),
      keyRing.open(invocationPlace(tenantId, id, 'args'), args as SealedValue).catch((error: unknown) => {
        if (error instanceof KeyDestroyedError)
          throw new DomainError('conflict', 'The arguments are no longer kept: the invocation is too old.');
        throw error;
      }),
      openedTokens.then((it) => it.tokens),
    ]);
    const budget = expressions.of(invocation, tenantId);
    const detokenized = await substituteTokens(budget, opened.expose(), (tokenId) => tokens.get(tokenId));
    return { code, applicationId, configuration, args: detokenized };
  }

  async #execute(
    invocation: Invocation,
    { code, args, configuration, applicationId }: Input,
    seen: SeenTokens,
  ): Promise<InvocationOutcome> {
    const { sandbox, fetch, operations } = this.#dependencies;
    const { tenantId, id: invocationId, invoked, metadata } = invocation;
    const origin: RunOrigin = {
      tenantId,
      invocationId,
      traceId: metadata.trace_id,
      onTokens: (tokens) => seen.add(tokens),
    };
    const longestMs = queueMs(invoked.timeout_ms) + invoked.timeout_ms + 1_000;
    const outcome = await this.#untilStopped(longestMs, (signal) =>
      sandbox.run({
        tenantId,
        code,
        args,
        configuration,
        hasSvc: applicationId !== undefined,
        timeoutMs: invoked.timeout_ms,
        hostCalls: {
          fetch: (request) => fetch({ ...request, tenantId }),
          ...(applicationId === undefined ? {} : { svc: this.#serviceClient(applicationId, origin) }),
        },
        signal,
      }),
    );
    if (outcome.kind !== 'succeeded') return { ...failureOfRun(outcome), seenTokenIds: seen.ids };
    const { raw, tokenize } = outcome.result;
    const body = {
      ...(tokenize === undefined ? {} : { tokens: await operations.tokenize(tokenize, metadata, origin) }),
      ...(raw === undefined ? {} : { raw }),
    };
    return { kind: 'succeeded', body, seenTokenIds: seen.ids };
  }

  /** A signal of its own, gone with the work: one of `AbortSignal.timeout` would last as long as the longest run. */
  async #untilStopped<Result>(timeoutMs: number, work: (signal: AbortSignal) => Promise<Result>) {
    const abort = new AbortController();
    if (this.#isStopped) abort.abort();
    const timer = setTimeout(() => abort.abort(), timeoutMs);
    this.#underWay.push(abort);
    try {
      return await work(abort.signal);
    } finally {
      clearTimeout(timer);
      this.#underWay.splice(this.#underWay.indexOf(abort), 1);
    }
  }

  #serviceClient(applicationId: string, origin: RunOrigin) {
    const { operations } = this.#dependencies;
    return async (method: string, args: Json): Promise<Json> => {
      const request = serviceRequest(method, args);
      if (request === undefined) throw new Error('there is no such method');
      return operations.asApplication(applicationId, request, origin);
    };
  }
}
