import { setTimeout as delay } from 'node:timers/promises';

/** Sleeps. Ends early, without an error, when `signal` aborts. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => undefined);
}

/** 0.5 s, 1 s, 2 s … up to 30 s. */
export const backOffMs = (attempt: number): number => Math.min(30_000, 500 * 2 ** Math.min(attempt, 10));
