import { AlteredRecordError, newId, ReactorStarted, type VaultEvent } from '@token-vault/contracts';
import { RevisionConflictError } from '@token-vault/event-store';
import type { Expressions } from '@token-vault/expressions';
import { errorFields, type Logger, type Spans } from '@token-vault/observability';
import { RecordedRefusals } from '@token-vault/operations';
import type { EgressFetch } from '@token-vault/egress';
import { defaultRunsPerTenant, emptyConsole, type GuestConsole, type SandboxPool } from '../sandbox/index.ts';
import { filledArguments } from './arguments.ts';
import { createLanes } from './lanes.ts';
import {
  holderOf,
  isGenuine,
  readHistory,
  runnerEvent,
  sandboxFor,
  type Invocation,
  type InvocationHistory,
} from './invocation.ts';
import { openForInvoker, type DeliveryRights, type NamedRights, type OpenedForInvoker } from './invoker.ts';
import { askedOf, runOf } from './nesting.ts';
import { failureOf, type InvocationOutcome } from './outcome.ts';
import type { Input } from './input.ts';
import { originOf } from './origin.ts';
import type { OpenTokens, VaultOperations } from './ports.ts';
import { createReactorContents, openConfiguration, type ReactorContents } from './reactor-content.ts';
import {
  createArgumentDestruction,
  createOutcomeKey,
  recordOutcome,
  untilAnswered,
  type RecordDependencies,
} from './record.ts';
import { runCode } from './run-code.ts';
import { SeenTokens } from './seen-tokens.ts';
import { StoppableWork } from './stoppable-work.ts';

export interface RunDependencies extends RecordDependencies, DeliveryRights, NamedRights {
  readonly logger: Logger;
  readonly openTokens: OpenTokens;
  readonly expressions: Expressions;
  readonly operations: VaultOperations;
  readonly sandbox: Pick<SandboxPool, 'run'>;
  /** The most runs of one tenant at once. Default: 16. */
  readonly runsPerTenant?: number | undefined;
  readonly fetch: EgressFetch;
  /** Called for each run, as a span of the request that invoked it. */
  readonly spans?: Spans;
}

/**
 * The run was not started. The feed delivers the invocation again, here after the next start or to another runner.
 */
export class RunnerStoppedError extends Error {
  readonly code = 'runner_stopped';
}

/** Set by the run of the code, also when the run fails. */
interface Printed {
  console: GuestConsole;
  mayHoldTokens: boolean;
}

/** The effects of a run besides its result, also when it fails. */
interface Told {
  readonly seen: SeenTokens;
  readonly printed: Printed;
  readonly refusals: RecordedRefusals;
}

/** Fewer invocations of one tenant would leave its CPU places empty between two runs. */
const leastClaimed = 8;
/** The CPU places that a tenant has in an empty pool. */
const placesOfTenant = 4;
/** The time after the run for tokenizing the output and appending the outcome. */
const recordMs = 15_000;

/** Runs invocations, each at most once, also when runners crash (architecture.md, Reactors). */
export class Runs {
  readonly #dependencies: RunDependencies;
  readonly #contents: ReactorContents;
  readonly #destroyArguments: (invocation: Invocation) => Promise<void>;
  /** As many claimed invocations of a tenant as may run at once: one more would only wait longer for its process. */
  readonly #claimedOfTenant: number;
  readonly #inLane: ReturnType<typeof createLanes>;
  readonly #runnerId = newId();
  readonly #stoppable = new StoppableWork();
  #takesMore = true;

  constructor(dependencies: RunDependencies) {
    this.#dependencies = dependencies;
    this.#claimedOfTenant = Math.max(leastClaimed, dependencies.runsPerTenant ?? defaultRunsPerTenant);
    this.#inLane = createLanes(this.#claimedOfTenant, placesOfTenant);
    this.#contents = createReactorContents(dependencies.store, dependencies.keyRing);
    this.#destroyArguments = createArgumentDestruction(dependencies.keyRing);
  }

  /** From now on no invocation is claimed. Claimed ones continue. */
  takeNoMore(): void {
    this.#takesMore = false;
  }

  /** Kills the running code. Each run still gets its outcome. */
  stop(): void {
    this.takeNoMore();
    this.#stoppable.stop();
  }

  /**
   * Runs the invocation unless another runner has claimed it. Resolves when the outcome is in the log and the
   * arguments are destroyed.
   * @param onClaimed called when the invocation is claimed: from then on its end is certain, also when this process
   * dies
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
    // A run that another run waits for must not wait for a place of that run. Asynchronous runs have their own places
    // (backlog.ts).
    return depth > 0 || mode === 'async' ? run() : this.#inLane(holderOf(invocation), run);
  }

  /**
   * Ends the invocation without opening a token. The arguments are left, because a forged event may name the key of
   * another entity.
   */
  async #refuse(invocation: Invocation, onClaimed: () => void): Promise<false> {
    const revision = await this.#claim(invocation, []);
    if (revision === undefined) return false;
    onClaimed();
    const outcome = failureOf(new AlteredRecordError('invocation'), () => undefined);
    await recordOutcome(this.#dependencies, invocation, outcome, { revision });
    return false;
  }

  /** Resolves to true when the run is over and the arguments may be left. */
  async #run(invocation: Invocation, onClaimed: () => void): Promise<boolean> {
    const { logger, store, findInvoker } = this.#dependencies;
    const { invoked, metadata, stream } = invocation;
    if (!this.#takesMore) throw new RunnerStoppedError('the runner starts no more runs');
    const startMs = Date.now();
    const asked = askedOf(runOf(invocation, new SeenTokens()));
    const invoker = findInvoker(invocation.tenantId, metadata.actor, asked);
    const refusals = new RecordedRefusals();
    const opened = invoker.then((it) =>
      openForInvoker(invocation, it, this.#dependencies, (tokens, invoking) =>
        filledArguments(invocation, tokens, { refusals, ...invoking }, this.#dependencies),
      ),
    );
    const prepared = this.#prepare(invocation, opened);
    prepared.catch(() => undefined);
    // No caller waits, so the invocation is claimed only when the present rights of its invoker are known.
    if (invoked.mode === 'async') await invoker;
    const seen = new SeenTokens();
    const printed: Printed = { console: emptyConsole, mayHoldTokens: false };
    const use = await opened.then(
      (tokens) => {
        seen.useAll(tokens);
        return tokens.use;
      },
      () => [],
    );
    const revision = await this.#claim(invocation, use);
    // The invocation was delivered again, maybe after a crash between the outcome and the destruction of the
    // arguments.
    if (revision === undefined) return (await readHistory(store, stream)).outcome !== undefined;
    onClaimed();
    // The key is made while the code runs, so that it costs no time.
    const outcomeKey = createOutcomeKey(this.#dependencies, invocation, seen.cvcEndsAt);
    const ended = await prepared
      .then((input) => this.#execute(invocation, input, { seen, printed, refusals }))
      .catch((error: unknown) =>
        failureOf(error, () =>
          logger.error({ trace_id: metadata.trace_id, ...errorFields(error) }, 'a run failed'),
        ),
      );
    const outcome = { ...ended, seen, refusals, ...printed };
    // No caller waits for an asynchronous run, and after its outcome no feed or sweeper returns to it. So the
    // arguments are destroyed before the outcome: after a crash in between the run is still found as lost.
    const areArgumentsGone = invoked.mode === 'async' && (await this.#tryToDestroyArguments(invocation));
    await recordOutcome(this.#dependencies, invocation, outcome, { revision, earlyKey: outcomeKey });
    this.#recordSpan(invocation, outcome, startMs);
    return !areArgumentsGone;
  }

  #recordSpan({ metadata }: Invocation, { kind }: InvocationOutcome, startMs: number): void {
    this.#dependencies.spans?.record({
      name: 'run reactor',
      traceId: metadata.trace_id,
      startMs,
      endMs: Date.now(),
      attributes: { 'vault.outcome': kind },
    });
  }

  /** False when the key table cannot be reached. Then the destruction is tried again after the outcome. */
  #tryToDestroyArguments(invocation: Invocation): Promise<boolean> {
    return this.#destroyArguments(invocation).then(
      () => true,
      () => false,
    );
  }

  /**
   * Claims the invocation by the append that follows its first event: the store lets one runner do so. The append
   * holds the use of the tokens, so the use is recorded before the code sees them and before anyone learns the result
   * of the arguments. The record is made once for any number of runners. The append costs one flush, during which the
   * tokens are opened. Gives the stream's revision.
   */
  async #claim(invocation: Invocation, use: readonly VaultEvent[]): Promise<number | undefined> {
    const { store, clock } = this.#dependencies;
    const { id: invocation_id, invoked, stream } = invocation;
    const now = clock.now();
    const deadline = new Date(
      now.getTime() + this.#queueMs(invoked.timeout_ms) + invoked.timeout_ms + recordMs,
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

  /**
   * How long a claimed run may wait for a process: as long as the claimed runs of its tenant take in its CPU places, and
   * 30 s more. Then it fails.
   */
  #queueMs(timeoutMs: number): number {
    return 30_000 + Math.ceil(this.#claimedOfTenant / placesOfTenant) * timeoutMs;
  }

  async #prepare(invocation: Invocation, openedTokens: Promise<OpenedForInvoker>): Promise<Input> {
    const { keyRing } = this.#dependencies;
    const { tenantId, invoked } = invocation;
    const { reactor_id: reactorId, reactor_revision: revision } = invoked;
    const content = this.#contents(tenantId, reactorId, revision);
    const [{ code, applicationId }, configuration, args, { context, parents }] = await Promise.all([
      content,
      content.then((it) => openConfiguration(keyRing, tenantId, reactorId, it.configuration)),
      openedTokens.then((it) => it.made),
      openedTokens,
    ]);
    const { shownAtMost } = context.principal;
    return { code, applicationId, configuration, args, shownAtMost, parents };
  }

  async #execute(
    invocation: Invocation,
    input: Input,
    { seen, printed, refusals }: Told,
  ): Promise<InvocationOutcome> {
    const { timeout_ms: timeoutMs, mode } = invocation.invoked;
    const origin = originOf(invocation, input, { seen, refusals }, this.#dependencies);
    const onConsole = (console: GuestConsole, mayHoldTokens: boolean) =>
      void Object.assign(printed, { console, mayHoldTokens });
    const code = { ...input, timeoutMs, origin, writer: { invoker: invocation.metadata }, onConsole };
    const sandbox = sandboxFor(invocation, this.#dependencies.sandbox);
    const outcome = await this.#stoppable.run(this.#queueMs(timeoutMs) + timeoutMs + 1_000, (signal) =>
      runCode({ ...this.#dependencies, sandbox }, { ...code, signal }),
    );
    if (outcome.kind === 'failed') return outcome;
    const { raw, tokens } = outcome;
    const { lines, truncated: is_cut } = printed.console;
    // A person tries the code in the console. The lines may hold data that the code was shown, which is masked for such a session (ADR 43).
    const isAtScreen = input.shownAtMost !== undefined && mode === 'sync';
    return {
      kind: 'succeeded',
      body: {
        ...(tokens === undefined ? {} : { tokens }),
        ...(raw === undefined ? {} : { raw }),
        ...(isAtScreen ? { run: { console: [...lines], is_cut, tokens_seen: seen.count } } : {}),
      },
    };
  }
}
