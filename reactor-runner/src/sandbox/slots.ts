import type { SandboxBundle } from './bundle.ts';
import { Execution } from './execution.ts';
import type { Job } from './job.ts';
import type { SandboxLimits } from './limits.ts';
import { SandboxChild } from './sandbox-child.ts';
import { createPriorities } from './priorities.ts';
import { processUsage } from './usage-watch.ts';
import type { ChildCommand } from './walls.ts';

/** How often running code is looked at from outside: the child itself cannot, its only thread runs the code. */
const watchIntervalMs = 25;
/** CPU time after which a run is no longer preferred, and after which it comes last. Most take less than one millisecond. */
const worksAfterCpuMs = 25;
const burnsAfterCpuMs = 100;
const startFailuresTolerated = 3;
const startBackoffMs = 1_000;

export interface Slot {
  readonly child: SandboxChild;
  state: 'busy' | 'free' | 'starting';
  /** Set when the first run is placed: a child serves one tenant for the whole of its life. */
  tenantId?: string;
  execution?: Execution;
  watched?: { readonly execution: Execution; readonly cpuMs: number };
  isBurning: boolean;
  runs: number;
  freeSince: number;
}

export interface SlotsEvents {
  /** A child became free, ready or died: waiting jobs may be placed. */
  onChange(): void;
  /** Children do not start: `error` is for the operator. */
  onStartFailures(): void;
}

/** The child processes of a pool: starting, binding to a tenant, watching, retiring. */
export class Slots {
  readonly #all = new Set<Slot>();
  readonly #command: ChildCommand;
  readonly #bundle: SandboxBundle;
  readonly #limits: SandboxLimits;
  readonly #events: SlotsEvents;
  readonly #gone = new Set<Promise<void>>();
  readonly #priorities = createPriorities();
  readonly #watch: NodeJS.Timeout;
  #startFailures = 0;
  #startNotBefore = 0;
  #isClosed = false;

  constructor(command: ChildCommand, bundle: SandboxBundle, limits: SandboxLimits, events: SlotsEvents) {
    this.#command = command;
    this.#bundle = bundle;
    this.#limits = limits;
    this.#events = events;
    this.#watch = setInterval(() => this.#watchBusy(), watchIntervalMs).unref();
  }

  get size(): number {
    return this.#all.size;
  }

  pids(): number[] {
    return [...this.#all].map(({ child }) => child.pid).filter((pid) => pid !== undefined);
  }

  count(matches: (slot: Slot) => boolean): number {
    let found = 0;
    for (const slot of this.#all) if (matches(slot)) found += 1;
    return found;
  }

  /** The free child used last among those that match: the warm ones stay warm, the others get old and retire. */
  freshest(matches: (slot: Slot) => boolean): Slot | undefined {
    return this.#best(matches, (a, b) => a.freeSince > b.freeSince);
  }

  oldest(matches: (slot: Slot) => boolean): Slot | undefined {
    return this.#best(matches, (a, b) => a.freeSince < b.freeSince);
  }

  canStart(): boolean {
    return !this.#isClosed && performance.now() >= this.#startNotBefore;
  }

  start(): void {
    const gone = Promise.withResolvers<void>();
    const slot: Slot = {
      state: 'starting',
      isBurning: false,
      runs: 0,
      freeSince: 0,
      child: new SandboxChild(this.#command, this.#bundle, this.#limits, {
        onReady: () => {
          this.#startFailures = 0;
          this.#priorities.ready(slot.child.pid);
          this.#free(slot);
        },
        onMessage: (message) => {
          if (slot.execution?.onMessage(message) === true)
            this.#onOver(slot, message.type === 'outcome' ? message.rssMb : 0);
        },
        onExit: (signal) => {
          if (slot.state === 'starting' && this.#all.has(slot)) this.#onStartFailure();
          this.#all.delete(slot);
          this.#gone.delete(gone.promise);
          gone.resolve();
          slot.execution?.onExit(signal);
          this.#events.onChange();
        },
      }),
    };
    this.#gone.add(gone.promise);
    this.#all.add(slot);
  }

  execute(slot: Slot, job: Job): void {
    slot.state = 'busy';
    this.#priorities.awaited(slot.child.pid);
    slot.tenantId = job.tenantId;
    slot.runs += 1;
    slot.execution = new Execution(slot.child, job, this.#limits);
    job.execution = slot.execution;
  }

  retire(slot: Slot): void {
    this.#all.delete(slot);
    slot.child.kill();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#watch);
    this.#all.forEach((slot) =>
      slot.execution === undefined ? slot.child.kill() : slot.execution.kill('killed'),
    );
    await Promise.all(this.#gone);
  }

  #best(matches: (slot: Slot) => boolean, isBetter: (a: Slot, b: Slot) => boolean): Slot | undefined {
    let best: Slot | undefined;
    for (const slot of this.#all) {
      if (slot.state === 'free' && matches(slot) && (best === undefined || isBetter(slot, best))) best = slot;
    }
    return best;
  }

  #onOver(slot: Slot, rssMb: number): void {
    const isWorn = slot.runs >= this.#limits.runsPerChild || rssMb > this.#limits.idleRssMb;
    const isOfUse = !isWorn && (!slot.isBurning || this.#priorities.recovered(slot.child.pid));
    if (isOfUse) this.#free(slot);
    else this.retire(slot);
    this.#events.onChange();
  }

  #free(slot: Slot): void {
    delete slot.execution;
    slot.isBurning = false;
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
    for (const slot of this.#all) {
      const { execution } = slot;
      const pid = slot.child.pid;
      // Most runs are over sooner.
      if (execution === undefined || performance.now() - execution.startedAt < watchIntervalMs) continue;
      if (pid === undefined) continue;
      const usage = processUsage(pid);
      if (usage === undefined) continue;
      if (slot.watched?.execution !== execution) slot.watched = { execution, cpuMs: usage.cpuMs };
      const cpuMs = usage.cpuMs - slot.watched.cpuMs;
      if (usage.rssMb > this.#limits.childRssMb) execution.kill('out-of-memory');
      else if (cpuMs > this.#limits.cpuMs) execution.kill('timed-out');
      else if (!slot.isBurning && cpuMs > burnsAfterCpuMs) {
        slot.isBurning = true;
        this.#priorities.burning(pid);
      } else if (!slot.isBurning && cpuMs > worksAfterCpuMs) this.#priorities.working(pid);
    }
  }
}
