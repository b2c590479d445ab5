import { apply, host } from './bridge.ts';

interface Armed {
  readonly callback: (...values: unknown[]) => void;
  readonly values: unknown[];
  readonly repeatMs: number | undefined;
}

const armed = new Map<string, Armed>();
let lastTimer = 0;

/**
 * The equivalent of Node's Timeout. Every timer of a guest ends with its run, so `ref` and `unref` change nothing.
 */
class Timer {
  readonly #id: string;
  constructor(id: string) {
    this.#id = id;
  }
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }
  hasRef(): boolean {
    return true;
  }
  close(): this {
    disarm(this);
    return this;
  }
  [Symbol.toPrimitive](): number {
    return Number(this.#id);
  }
}

function arm(callback: unknown, delay: unknown, values: unknown[], repeats: boolean): Timer {
  if (typeof callback !== 'function') throw new TypeError('The callback of a timer must be a function');
  const wanted = Number(delay);
  const ms = wanted >= 1 && wanted <= 2_147_483_647 ? Math.trunc(wanted) : 1;
  const id = `${++lastTimer}`;
  armed.set(id, { callback: callback as Armed['callback'], values, repeatMs: repeats ? ms : undefined });
  host('timer', id, ms);
  return new Timer(id);
}

function disarm(timer: unknown): void {
  if (timer === undefined || timer === null) return;
  const id = `${Number(timer)}`;
  if (armed.delete(id)) host('clear', id);
}

export function fire(id: string): void {
  const timer = armed.get(id);
  if (timer === undefined) return;
  if (timer.repeatMs === undefined) armed.delete(id);
  else host('timer', id, timer.repeatMs);
  apply(timer.callback, undefined, timer.values);
}

export const timerGlobals = {
  setTimeout: (callback: unknown, delay?: unknown, ...values: unknown[]) =>
    arm(callback, delay, values, false),
  setInterval: (callback: unknown, delay?: unknown, ...values: unknown[]) =>
    arm(callback, delay, values, true),
  setImmediate: (callback: unknown, ...values: unknown[]) => arm(callback, 0, values, false),
  clearTimeout: disarm,
  clearInterval: disarm,
  clearImmediate: disarm,
};
