import { setTimeout as delay } from 'node:timers/promises';
import type { SandboxBundle } from './bundle.ts';
import type { ChildAccounts } from './child-accounts.ts';
import type { ChildCommand } from './child-command.ts';
import { endOfWaiter, Execution } from './execution.ts';
import type { Job } from './job.ts';
import type { SandboxLimits } from './limits.ts';
import { SandboxChild } from './sandbox-child.ts';
import type { Priorities } from './priorities.ts';
import { excessOf, type ProcessUsage } from './usage-watch.ts';
import { heaviest, isWaiting, stillnessOf, type Stillness } from './waiting.ts';

/** How often running code is checked from outside. The child cannot check itself: its only thread runs the code. */
const watchIntervalMs = 25;
/** How often children without a run are checked: code that has left its isolate may continue after its run. */
const idleWatchIntervalMs = 250;
/**
 * The priority of a run by its CPU time: no longer preferred, then lowest, then idle time only. Most runs take less
 * than one millisecond.
 */
const paces = [
  ['endless', 1_000],
  ['burning', 100],
  ['working', 25],
] as const;
/** Killed children run no more code. With a low priority they may take seconds to end on a busy machine, and the end of the service does not wait. */
const goneWithinMs = 5_000;
const startFailuresTolerated = 3;
const startBackoffMs = 1_000;

type Pace = (typeof paces)[number][0] | 'usual';

export interface Slot {
  readonly child: SandboxChild;
  state: 'busy' | 'free' | 'starting';
  /** Set when the first run is placed. A child serves one tenant for its whole life. */
  tenantId?: string;
  execution?: Execution;
  watched?: { readonly execution: Execution; readonly cpuMs: number };
  /** Undefined while the run works. */
  stillness?: Stillness | undefined;
  watchedIdle?: { readonly freeSince: number; readonly cpuMs: number };
  pace: Pace;
  runs: number;
  freeSince: number;
}

export interface SlotsEvents {
  /** A child became free or ready, or died: waiting jobs may be placed. */
  onChange(): void;
  /** A run of the tenant crashed its child, or could be ended only by killing the child. */
  onLoss(tenantId: string): void;
  /** Children do not start. `error` is for the operator. */
  onStartFailures(): void;
}

/** How children start. Each has its own account where the host allows it. */
export interface ChildStart {
  readonly command: (account: number | undefined) => ChildCommand;
  /** Undefined where children have no accounts of their own. */
  readonly accounts: ChildAccounts | undefined;
  readonly priorities: Priorities;
  readonly usageOf: (pid: number) => ProcessUsage | undefined;
  /** Whether all threads of the process sleep. */
  readonly isAsleep: (pid: number) => boolean;
  /** Resident memory of all runs together at which one of them is ended. */
  readonly mostRssMb: number;
}

/** The child processes of a pool: their start, tenant, checks and end. */
export class Slots {
  readonly #all = new Set<Slot>();
  readonly #start: ChildStart;
  readonly #bundle: SandboxBundle;
  readonly #limits: SandboxLimits;
  readonly #events: SlotsEvents;
  readonly #gone = new Set<Promise<void>>();
  readonly #starting = new Set<Promise<void>>();
  readonly #priorities: Priorities;
  readonly #watches: readonly NodeJS.Timeout[];
  #startFailures = 0;
  #startNotBefore = 0;
  #isClosed = false;

  constructor(start: ChildStart, bundle: SandboxBundle, limits: SandboxLimits, events: SlotsEvents) {
    this.#priorities = start.priorities;
    this.#start = start;
    this.#bundle = bundle;
    this.#limits = limits;
    this.#events = events;
    this.#watches = [
      setInterval(() => this.#watchBusy(), watchIntervalMs).unref(),
      setInterval(() => this.#watchIdle(), idleWatchIntervalMs).unref(),
    ];
  }

  get size(): number {
    return this.#all.size;
  }

  all(): Iterable<Slot> {
    return this.#all;
  }

  pids(): number[] {
    return [...this.#all].map(({ child }) => child.pid).filter((pid) => pid !== undefined);
  }

  count(matches: (slot: Slot) => boolean): number {
    let found = 0;
    for (const slot of this.#all) if (matches(slot)) found += 1;
    return found;
  }

  /**
   * The most recently used free child among those that match: so some children stay warm, and the others become idle
   * and end.
   */
  freshest(matches: (slot: Slot) => boolean): Slot | undefined {
    const slot = this.#best(matches, (a, b) => a.freeSince > b.freeSince);
    if (slot === undefined || slot.child.isThere()) return slot;
    this.retire(slot);
    return this.freshest(matches);
  }

  oldest(matches: (slot: Slot) => boolean): Slot | undefined {
    return this.#best(matches, (a, b) => a.freeSince < b.freeSince);
  }

  canStart(): boolean {
    return !this.#isClosed && performance.now() >= this.#startNotBefore;
  }

  /** @param isAwaited whether a job waits for the child. Other children start with the lowest priority */
  start(isAwaited: boolean): void {
    const { accounts, command } = this.#start;
    const account = accounts?.take();
    // All accounts are in use. When another child ends, it returns its account and onChange is called.
    if (accounts !== undefined && account === undefined) return;
    const gone = Promise.withResolvers<void>();
    const started = Promise.withResolvers<void>();
    const hasStarted = (): void => {
      this.#starting.delete(started.promise);
      started.resolve();
    };
    const slot: Slot = {
      state: 'starting',
      pace: 'usual',
      runs: 0,
      freeSince: 0,
      child: new SandboxChild(command(account), this.#bundle, this.#limits, {
        onReady: () => {
          this.#startFailures = 0;
          hasStarted();
          this.#priorities.ready(slot.child.pid);
          this.#free(slot);
        },
        onMessage: (message) => {
          if (slot.execution?.onMessage(message) === true) this.#onOver(slot);
        },
        onExit: (signal) => {
          hasStarted();
          // False when the child was retired on purpose.
          const isLost = this.#all.delete(slot);
          if (account !== undefined) accounts?.release(account);
          if (isLost && slot.state === 'starting') this.#onStartFailure();
          if (isLost && slot.tenantId !== undefined) this.#events.onLoss(slot.tenantId);
          this.#gone.delete(gone.promise);
          gone.resolve();
          slot.execution?.onExit(signal);
          this.#events.onChange();
        },
      }),
    };
    this.#gone.add(gone.promise);
    this.#starting.add(started.promise);
    this.#all.add(slot);
    if (!isAwaited) this.#priorities.spare(slot.child.pid);
  }

  /** Resolves when the starting children are ready or have ended. */
  async started(): Promise<void> {
    await Promise.all(this.#starting);
  }

  /** A job waits for one of the starting children. */
  hurry(): void {
    for (const { state, child } of this.#all) if (state === 'starting') this.#priorities.hurried(child.pid);
  }

  execute(slot: Slot, job: Job): void {
    slot.state = 'busy';
    this.#priorities.awaited(slot.child.pid);
    slot.tenantId = job.tenantId;
    slot.runs += 1;
    slot.execution = new Execution(slot.child, job, this.#limits, endOfWaiter(job, this.#all));
    job.execution = slot.execution;
  }

  retire(slot: Slot): void {
    this.#all.delete(slot);
    slot.child.kill();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#watches.forEach((watch) => clearInterval(watch));
    this.#all.forEach((slot) =>
      slot.execution === undefined ? slot.child.kill() : slot.execution.kill('killed'),
    );
    await Promise.race([Promise.all(this.#gone), delay(goneWithinMs, undefined, { ref: false })]);
  }

  #best(matches: (slot: Slot) => boolean, isBetter: (a: Slot, b: Slot) => boolean): Slot | undefined {
    let best: Slot | undefined;
    for (const slot of this.#all) {
      if (slot.state === 'free' && matches(slot) && (best === undefined || isBetter(slot, best))) best = slot;
    }
    return best;
  }

  #onOver(slot: Slot): void {
    if (slot.runs >= this.#limits.runsPerChild) this.#keep(slot, false);
    else if (slot.pace === 'endless')
      void this.#priorities.revived(slot.child.pid).then((isOfUse) => this.#keep(slot, isOfUse));
    else this.#keep(slot, slot.pace !== 'burning' || this.#priorities.recovered(slot.child.pid));
  }

  #keep(slot: Slot, isOfUse: boolean): void {
    if (!this.#all.has(slot)) return;
    if (isOfUse) this.#free(slot);
    else this.retire(slot);
    this.#events.onChange();
  }

  #free(slot: Slot): void {
    delete slot.execution;
    slot.pace = 'usual';
    this.#priorities.resting(slot.child.pid);
    slot.state = 'free';
    slot.freeSince = performance.now();
    this.#events.onChange();
  }

  #onStartFailure(): void {
    this.#startFailures += 1;
    if (this.#startFailures < startFailuresTolerated || this.#isClosed) return;
    this.#startNotBefore = performance.now() + startBackoffMs;
    setTimeout(() => this.#events.onChange(), startBackoffMs).unref();
    this.#events.onStartFailures();
  }

  #watchBusy(): void {
    const held: { readonly tenantId: string; readonly rssMb: number; readonly execution: Execution }[] = [];
    let hasNewlyWaiting = false;
    for (const slot of this.#all) {
      const { execution } = slot;
      const pid = slot.child.pid;
      // Most runs end sooner than this.
      if (execution === undefined || performance.now() - execution.startedAt < watchIntervalMs) continue;
      const usage = pid === undefined ? undefined : this.#start.usageOf(pid);
      if (pid === undefined || usage === undefined) continue;
      if (slot.watched?.execution !== execution) slot.watched = { execution, cpuMs: usage.cpuMs };
      const cpuMs = usage.cpuMs - slot.watched.cpuMs;
      held.push({ tenantId: execution.job.tenantId, rssMb: usage.rssMb, execution });
      hasNewlyWaiting = this.#watchStillness(slot, execution, { ...usage, pid }) || hasNewlyWaiting;
      const excess = excessOf({ ...usage, cpuMs }, this.#limits);
      if (excess !== undefined) execution.kill(excess);
      else this.#slow(slot, paces.find(([, afterCpuMs]) => cpuMs > afterCpuMs)?.[0]);
    }
    heaviest(held, this.#start.mostRssMb)?.execution.kill('out-of-memory');
    if (hasNewlyWaiting) this.#events.onChange();
  }

  /** True when the run has begun to wait for the network, and so has left its CPU place. */
  #watchStillness(
    slot: Slot,
    execution: Execution,
    { pid, cpuMs, rssMb }: { readonly pid: number; readonly cpuMs: number; readonly rssMb: number },
  ): boolean {
    const wasWaiting = isWaiting(slot);
    const look = { cpuMs, rssMb, isAsleep: () => this.#start.isAsleep(pid) };
    slot.stillness = stillnessOf(slot.stillness, execution, look, this.#limits.idleRssMb);
    return !wasWaiting && isWaiting(slot);
  }

  #watchIdle(): void {
    const { idleCpuMs, idleRssMb, threads } = this.#limits;
    for (const slot of this.#all) {
      const { child, freeSince, tenantId } = slot;
      const usage =
        slot.state === 'free' && child.pid !== undefined ? this.#start.usageOf(child.pid) : undefined;
      if (usage === undefined) continue;
      if (slot.watchedIdle?.freeSince !== freeSince) slot.watchedIdle = { freeSince, cpuMs: usage.cpuMs };
      const isHostile = usage.threads > threads || usage.cpuMs - slot.watchedIdle.cpuMs > idleCpuMs;
      if (!isHostile && usage.rssMb <= idleRssMb) continue;
      if (isHostile && tenantId !== undefined) this.#events.onLoss(tenantId);
      this.#keep(slot, false);
    }
  }

  #slow(slot: Slot, pace: Exclude<Pace, 'usual'> | undefined): void {
    if (pace === undefined || pace === slot.pace) return;
    slot.pace = pace;
    this.#priorities[pace](slot.child.pid);
  }
}
