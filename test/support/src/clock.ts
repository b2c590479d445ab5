export interface ManualClock {
  /** The present of the test; pass the function itself where production passes `() => new Date()`. */
  readonly now: () => Date;
  /** Moves forward by milliseconds (backwards if negative: clocks do that too). */
  advance(milliseconds: number): void;
  set(to: Date | string): void;
}

/** A clock that stands still unless told. Starts at 2030-01-01T00:00:00Z unless `start` says otherwise. */
export function manualClock(start: Date | string = '2030-01-01T00:00:00.000Z'): ManualClock {
  let time = new Date(start).getTime();
  return {
    now: () => new Date(time),
    advance: (milliseconds) => {
      time += milliseconds;
    },
    set: (to) => {
      time = new Date(to).getTime();
    },
  };
}
