import type { Context } from 'liquidjs';
import { measure, type Json } from './json.ts';

/** Thrown where expressions may take no more, to be told to the caller; its message is a whole sentence of ours. */
export class LimitError extends Error {
  override readonly name = 'LimitError';
}

/** Thrown on the thread that serves requests when the work is for a worker: the engine's, or too much. */
export class ElsewhereError extends Error {
  override readonly name = 'ElsewhereError';
}

/** The engine calls them before each step, and before it allocates. */
export type EngineLimits = Pick<Context, 'memoryLimit' | 'renderLimit'>;

/** What the expressions of one job may take, wherever it runs. */
export interface Meter {
  /** Before work on so many characters or nodes. @throws LimitError, ElsewhereError */
  spend(steps: number): void;
  /** Before work on the characters or nodes of a value. @throws LimitError, ElsewhereError */
  spendOn(value: Json, weight: number): void;
  /** @throws ElsewhereError where the engine must not run */
  engine(): EngineLimits;
}

/** On the thread that serves requests: few steps, no engine. */
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
    if (this.#left < 0) throw new ElsewhereError('steps');
  }

  spendOn(value: Json, weight: number): void {
    if (weight > 0) this.spend(weight * measure(value, this.#left));
  }

  engine(): never {
    throw new ElsewhereError('engine');
  }
}

export const tooSlow = 'The expression takes too much time.';
export const tooLarge = 'The expression takes too much memory.';

/** In a worker: processor time, by a clock in milliseconds, and what the engine allocates. */
export class ClockMeter implements Meter {
  readonly #now: () => number;
  readonly #until: number;
  readonly #memory: number;
  #memoryUsed = 0;
  readonly #engine: EngineLimits;

  constructor({ now, ms, memory }: { now: () => number; ms: number; memory: number }) {
    this.#now = now;
    this.#until = now() + ms;
    this.#memory = memory;
    // liquidjs declares its limiter as a class with private fields; it calls these two methods and nothing else.
    this.#engine = {
      renderLimit: { check: () => this.spend(), use: () => this.spend() },
      memoryLimit: { check: (count: number) => this.#check(count), use: (count: number) => this.#use(count) },
    } as unknown as EngineLimits;
  }

  get memoryUsed(): number {
    return this.#memoryUsed;
  }

  spendOn(): void {
    this.spend();
  }

  spend(): void {
    if (this.#now() > this.#until) throw new LimitError(tooSlow);
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
