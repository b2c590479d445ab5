import { setTimeout as delay } from 'node:timers/promises';

/** Waits for `work`, at most for `ms`, and gives whether it has ended. Rejects when it does, in that time. */
export async function endsInTime(work: Promise<unknown>, ms: number): Promise<boolean> {
  const ended = new AbortController();
  try {
    const isLate = delay(ms, false, { signal: ended.signal });
    return await Promise.race([work.then(() => true), isLate]);
  } finally {
    ended.abort();
  }
}
