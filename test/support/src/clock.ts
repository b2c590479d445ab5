export interface ManualClock {
  /** The present time of the test. Pass the function itself where production passes `() => new Date()`. */
  readonly now: () => Date;
  /** Moves forward by milliseconds, backwards if negative, as real clocks sometimes do. */
  advance(milliseconds: number): void;
  set(to: Date | string): void;
}

/** A clock that changes only when a test moves it. It starts at `start`, by default at 2030-01-01T00:00:00Z. */
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
