import { once } from 'node:events';
import { sandboxBundle } from './bundle.ts';
import { JobQueue } from './job-queue.ts';
import { holderOf, type Job, type RunRequest } from './job.ts';
import { defaultSandboxLimits } from './limits.ts';
import type { SandboxLimits } from './limits.ts';
import type { ChildOutcome } from './messages.ts';
import { emptyConsole } from './outcome.ts';
import type { CompileOutcome, RunOutcome } from './outcome.ts';
import { createPriorities } from './priorities.ts';
import { parseInTurn } from './large-json.ts';
import { readCompileOutcome, readRunOutcome } from './read-outcome.ts';
import { RunPauses } from './run-pauses.ts';
import { Slots, type SlotsEvents } from './slots.ts';
import { createChildAccounts, defaultAccountRange } from './child-accounts.ts';
import { childCommand } from './child-command.ts';
import { isAsleep, processUsage } from './usage-watch.ts';
import { isWaiting } from './waiting.ts';
import { findWallTools, probeWalls } from './walls.ts';
import { hasRoom, heldPlaces, placesOf, type Places } from './places.ts';
import type { CompileRequest, SandboxPool, SandboxPoolOptions, SandboxStats } from './pool-types.ts';
import type { Walls } from './wall-kinds.ts';

const startingAtOnce = 2;
/** A tenant with a child waits this long for it before it gets a second: most runs end sooner than a start takes. */
const expandAfterMs = 8;
const compileTimeoutMs = 2_000;
/** Checks of code take turns with the callers of runs. */
const callerOfChecks = 'checks';
const killed = { kind: 'killed', console: emptyConsole } as const;
const tooLong = { kind: 'compile-error', message: 'The code is too long', console: emptyConsole } as const;
/** Starts a pool. Takes about a second: bundling, the probe of the walls, the first children. */
export async function createSandboxPool(options: SandboxPoolOptions = {}): Promise<SandboxPool> {
  const limits = { ...defaultSandboxLimits, ...options.limits };
  const [bundle, tools] = await Promise.all([sandboxBundle(), findWallTools()]);
  const range = options.accounts ?? defaultAccountRange;
  const accounts = createChildAccounts(range);
  const walls = await probeWalls(bundle, limits, { tools, accounts, signal: options.signal });
  options.report?.({ kind: 'walls', walls });
  const hasAccounts = walls.ownAccount && process.getuid?.() === 0;
  const places = placesOf(options, limits, hasAccounts ? range.last - range.first + 1 : undefined);
  const start = {
    command: (account: number | undefined) => childCommand(bundle, limits, { walls, tools, account }),
    accounts: hasAccounts ? accounts : undefined,
    priorities: createPriorities(tools.chrt),
    usageOf: processUsage,
    isAsleep,
    mostRssMb: places.mostRssMb,
  };
  const pool = new Pool(
    options,
    { limits, walls, places },
    (events) => new Slots(start, bundle, limits, events),
  );
  const { signal } = options;
  await Promise.race([pool.started(), ...(signal ? [once(signal, 'abort')] : [])]);
  return pool;
}

class Pool implements SandboxPool {
  readonly #limits: SandboxLimits;
  readonly #walls: Walls;
  readonly #slots: Slots;
  readonly #queue: JobQueue;
  readonly #pauses: RunPauses;
  readonly #places: Places;
  readonly #settings: Required<Pick<SandboxPoolOptions, 'idleMs' | 'spares'>>;
  readonly #sweep: NodeJS.Timeout;
  #placing: NodeJS.Timeout | undefined;
  #nextPlacing = Infinity;
  #lastNumber = 0;
  #isClosed = false;
  #isPlacing = false;

  constructor(
    options: SandboxPoolOptions,
    { limits, walls, places }: { limits: SandboxLimits; walls: Walls; places: Places },
    slots: (events: SlotsEvents) => Slots,
  ) {
    const { spares = 2, idleMs = 30_000 } = options;
    this.#settings = { spares: Math.min(spares, places.cpu), idleMs };
    this.#places = places;
    this.#pauses = new RunPauses(options);
    this.#limits = limits;
    this.#walls = walls;
    this.#slots = slots({
      onChange: () => this.#place(),
      onLoss: (tenantId) => this.#pauses.lost(tenantId),
      onStartFailures: () => {
        options.report?.({ kind: 'children-do-not-start' });
        this.#queue.clear().forEach((job) => job.settle(killed));
      },
    });
    this.#queue = new JobQueue(this.#slots, places, options);
    this.#sweep = setInterval(() => this.#retireIdle(), Math.max(50, idleMs / 4)).unref();
    this.#place();
  }

  async run(request: RunRequest): Promise<RunOutcome> {
    const { args, bodyText, configuration, hasSvc, signal, caller = '', ...parts } = request;
    const argsText = JSON.stringify(args);
    const rest = JSON.stringify({ purpose: 'run', bodyText, configuration, hasSvc });
    const input = `{"args":${argsText},${rest.slice(1)}`;
    // To refuse arguments beside a large configuration would reveal the length of data in them.
    const argsBytes = Buffer.byteLength(argsText) + Buffer.byteLength(bodyText ?? '');
    if (argsBytes > this.#limits.argsBytes * 1.1)
      return { kind: 'limit-exceeded', limit: 'argument size', console: emptyConsole };
    const outcome = await this.#submit({ ...parts, caller, input, purpose: 'run' }, signal);
    const chars = 'text' in outcome ? outcome.text.length : 0;
    return parseInTurn(holderOf(request), chars, () => readRunOutcome(outcome, this.#limits));
  }

  async compile({ tenantId, code }: CompileRequest): Promise<CompileOutcome> {
    const input = JSON.stringify({ purpose: 'check', args: {}, configuration: {}, hasSvc: false });
    const job = {
      tenantId,
      caller: callerOfChecks,
      code,
      input,
      timeoutMs: compileTimeoutMs,
      hostCalls: undefined,
      purpose: 'check',
    } as const;
    return readCompileOutcome(await this.#submit(job));
  }

  started(): Promise<void> {
    return this.#slots.started();
  }

  stats(): SandboxStats {
    return {
      children: this.#slots.size,
      busy: this.#slots.count(({ state }) => state === 'busy'),
      waiting: this.#slots.count(isWaiting),
      spares: this.#slots.count(({ state, tenantId }) => state === 'free' && tenantId === undefined),
      queued: this.#queue.size,
      walls: this.#walls,
      pids: this.#slots.pids(),
    };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#sweep);
    clearTimeout(this.#placing);
    this.#queue.clear().forEach((job) => job.settle(killed));
    await this.#slots.close();
  }

  #submit(
    parts: Omit<Job, 'execution' | 'number' | 'queuedAt' | 'settle'>,
    signal?: AbortSignal,
  ): Promise<ChildOutcome> {
    if (parts.code.length > this.#limits.codeChars) return Promise.resolve(tooLong);
    if (this.#isClosed || signal?.aborted || this.#queue.isUnwanted(parts)) return Promise.resolve(killed);
    if (!this.#queue.mayWait(parts)) return Promise.resolve({ kind: 'overloaded', console: emptyConsole });
    return new Promise((resolve) => {
      const cancel = (): void => this.#cancel(job);
      const job: Job = {
        ...parts,
        number: ++this.#lastNumber,
        queuedAt: performance.now(),
        settle: (outcome) => {
          signal?.removeEventListener('abort', cancel);
          resolve(outcome);
          this.#queue.removeNestedOf(job).forEach((nested) => nested.settle(killed));
        },
      };
      signal?.addEventListener('abort', cancel);
      this.#queue.push(job);
      this.#place();
    });
  }

  #cancel(job: Job): void {
    if (this.#queue.remove(job)) job.settle(killed);
    else job.execution?.kill('killed');
  }

  #place(): void {
    if (this.#isClosed || this.#isPlacing) return;
    this.#isPlacing = true;
    while (this.#queue.take((job, isLent) => this.#tryPlace(job, isLent)));
    this.#giveBackPlaces();
    this.#keepSpares();
    this.#isPlacing = false;
  }

  #tryPlace(job: Job, isLent: boolean): boolean {
    const { tenantId } = job;
    const own = this.#slots.count(
      (slot) => slot.state === 'busy' && slot.tenantId === tenantId && !isWaiting(slot),
    );
    const warm = this.#slots.freshest((slot) => slot.tenantId === tenantId);
    const queuedMs = performance.now() - job.queuedAt;
    const expandMs = warm === undefined && own > 0 ? expandAfterMs - queuedMs : 0;
    const waitMs = Math.max(expandMs, this.#pauses.waitMs(job, warm === undefined));
    if (waitMs > 0) {
      this.#placeAfter(waitMs);
      return false;
    }
    const slot = warm ?? this.#slots.freshest((each) => each.tenantId === undefined);
    if (slot === undefined) {
      this.#makeRoomAndStart(isLent);
      return false;
    }
    job.isLent = isLent;
    this.#pauses.begun(tenantId);
    this.#slots.execute(slot, job);
    return true;
  }

  /** Keeps the earlier of the requested times. */
  #placeAfter(waitMs: number): void {
    const at = performance.now() + waitMs;
    if (at >= this.#nextPlacing) return;
    this.#nextPlacing = at;
    clearTimeout(this.#placing);
    this.#placing = setTimeout(() => {
      this.#nextPlacing = Infinity;
      this.#place();
    }, waitMs);
  }

  /** @param isLent whether the run that waits for the process begins in the place of another one, so that it needs no room */
  #makeRoomAndStart(isLent: boolean): void {
    this.#slots.hurry();
    if (!this.#slots.canStart() || this.#starting() >= startingAtOnce) return;
    if (!hasRoom(this.#slots, this.#places)) {
      const idle = this.#slots.oldest(({ tenantId }) => tenantId !== undefined);
      if (idle !== undefined) this.#slots.retire(idle);
      if (!isLent && !hasRoom(this.#slots, this.#places)) return;
    }
    this.#slots.start(true);
  }

  #keepSpares(): void {
    const unbound = this.#slots.count(({ tenantId }) => tenantId === undefined);
    for (let missing = this.#settings.spares - unbound; missing > 0; missing--) {
      if (
        !hasRoom(this.#slots, this.#places) ||
        this.#starting() >= startingAtOnce ||
        !this.#slots.canStart()
      )
        return;
      this.#slots.start(false);
    }
  }

  /** Runs that go on after they waited may leave more processes than there are CPU places. The idle ones end. */
  #giveBackPlaces(): void {
    while (heldPlaces(this.#slots, this.#places) > this.#places.cpu) {
      const idle = this.#slots.oldest(() => true);
      if (idle === undefined) return;
      this.#slots.retire(idle);
    }
  }

  #starting(): number {
    return this.#slots.count(({ state }) => state === 'starting');
  }

  #retireIdle(): void {
    const before = performance.now() - this.#settings.idleMs;
    const isStale = (slot: { tenantId?: string; freeSince: number }) =>
      slot.tenantId !== undefined && slot.freeSince < before;
    for (let slot = this.#slots.oldest(isStale); slot !== undefined; slot = this.#slots.oldest(isStale))
      this.#slots.retire(slot);
    this.#place();
  }
}
