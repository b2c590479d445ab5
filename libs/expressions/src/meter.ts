import type { Context } from 'liquidjs';
import { measure, type Json } from './json.ts';

/** Thrown when expressions exceed a limit. The message is a whole sentence of ours and is shown to the caller. */
export class LimitError extends Error {
  override readonly name = 'LimitError';
}

/** Thrown on the thread that serves requests when the work needs a worker: it needs the engine, or takes too many steps. */
export class NeedsWorkerError extends Error {
  override readonly name = 'NeedsWorkerError';
}

/** The engine calls these before each step, and before it allocates. */
export type EngineLimits = {
  readonly [Limit in 'memoryLimit' | 'renderLimit']: Pick<Context[Limit], 'check' | 'use'>;
};

/** The limits of the expressions of one job, on any thread. */
export interface Meter {
  /** Call before work on this number of characters or nodes. @throws LimitError, NeedsWorkerError */
  spend(steps: number): void;
  /** Call before work on the characters or nodes of a value. @throws LimitError, NeedsWorkerError */
  spendOn(value: Json, weight: number): void;
  /** @throws NeedsWorkerError where the engine must not run */
  engine(): EngineLimits;
}

/** The meter of the thread that serves requests: few steps, no engine. */
export class StepMeter implements Meter {
  readonly #granted: number;
  #left: number;

  constructor(steps: number) {
    this.#granted = steps;
    this.#left = steps;
  }

  get used(): number {
    return Math.min(this.#granted, this.#granted - this.#left);
  }

  spend(steps: number): void {
    this.#left -= steps;
    if (this.#left < 0) throw new NeedsWorkerError('steps');
  }

  spendOn(value: Json, weight: number): void {
    if (weight > 0) this.spend(weight * measure(value, this.#left));
  }

  engine(): never {
    throw new NeedsWorkerError('engine');
  }
}

export const tooSlow = 'The expression takes too much time.';
export const tooLarge = 'The expression takes too much memory.';

/** Milliseconds of processor time of this thread: other load on the machine does not reduce a tenant's allowance. */
export function processorMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

/** The meter of a worker: processor time, and the allocations of the engine. */
export class ClockMeter implements Meter {
  readonly #until: number;
  /** The time of day at which the processor time is read next. Reading it costs more than most steps. */
  #looksAt: number;
  readonly #memory: number;
  #memoryUsed = 0;
  readonly #engine: EngineLimits;

  constructor({ ms, memory }: { ms: number; memory: number }) {
    this.#until = processorMs() + ms;
    this.#looksAt = performance.now() + ms;
    this.#memory = memory;
    this.#engine = {
      renderLimit: { check: () => this.spend(), use: () => this.spend() },
      memoryLimit: { check: (count: number) => this.#check(count), use: (count: number) => this.#use(count) },
    };
  }

  get memoryUsed(): number {
    return this.#memoryUsed;
  }

  spendOn(): void {
    this.spend();
  }

  /** A thread cannot use more processor time than has passed: until that much has passed, nothing needs to be read. */
  spend(): void {
    const now = performance.now();
    if (now < this.#looksAt) return;
    const left = this.#until - processorMs();
    if (left < 0) throw new LimitError(tooSlow);
    this.#looksAt = now + left;
  }

  engine(): EngineLimits {
    return this.#engine;
  }

  #use(count: number): void {
    if (+count > 0) {
      this.#check(this.#memoryUsed + +count);
      this.#memoryUsed += +count;
    }
  }

  #check(count: number): void {
    if (+count > this.#memory) throw new LimitError(tooLarge);
  }
}
