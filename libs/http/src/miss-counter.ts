/** Places for tries that a process took from a window of an application. */
export interface TakenPlaces {
  /** At least as many as were asked for, or 0 when the window has no room. */
  readonly places: number;
  /** As many unused places the process may keep for later tries. */
  readonly keeps: number;
  /** The name of the window. */
  readonly window: string;
  readonly endsInMs: number;
}

/**
 * Counts the tries of applications in windows of a minute. A window begins with the first try. Processes that share a counter share
 * the limit.
 */
export interface MissCounter {
  /** Gives no place when the window has no room for one. Otherwise it gives `tries` places, or a tenth of the room if that is more. */
  take(applicationId: string, tries: number, limit: number): Promise<TakenPlaces>;
  /** Places of the window that were not used. Does nothing when the window is over. */
  giveBack(applicationId: string, window: string, places: number): Promise<void>;
}

export const windowMs = 60_000;

/** A counter of this process alone. */
export function createProcessCounter(nowMs: () => number): MissCounter {
  const windows = new Map<string, { taken: number; readonly endsAtMs: number }>();

  function windowOf(applicationId: string) {
    const present = windows.get(applicationId);
    if (present && nowMs() < present.endsAtMs) return present;
    const window = { taken: 0, endsAtMs: nowMs() + windowMs };
    windows.set(applicationId, window);
    return window;
  }

  return {
    async take(applicationId, tries, limit) {
      const window = windowOf(applicationId);
      const room = limit - window.taken;
      const keeps = Math.floor(Math.max(0, room) / 10);
      const places = room > 0 ? Math.max(tries, keeps) : 0;
      window.taken += places;
      return { places, keeps, window: String(window.endsAtMs), endsInMs: window.endsAtMs - nowMs() };
    },

    async giveBack(applicationId, name, places) {
      const window = windows.get(applicationId);
      if (window && String(window.endsAtMs) === name) window.taken -= places;
    },
  };
}
