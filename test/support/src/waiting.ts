import { setTimeout as sleep } from 'node:timers/promises';

/** The longest pause between two calls of a condition: a condition that sends requests takes time from what it waits for. */
const longestPauseMs = 50;

/**
 * Waits until `condition` gives a truthy value, and gives that value. An error of `condition` counts as not yet.
 * After `timeoutMs` (20 s by default) the last error is the cause of the failure. Between two calls it pauses for `pauseMs`: by default a
 * twentieth of the time that it has waited, 10 ms at least and 50 ms at most.
 */
export async function waitUntil<Result>(
  condition: () => Result | Promise<Result>,
  options: { readonly timeoutMs?: number; readonly pauseMs?: number; readonly what?: string } = {},
): Promise<Exclude<Result, false | null | undefined | 0 | ''>> {
  const { timeoutMs = 20_000, what = 'the condition' } = options;
  const begun = performance.now();
  const deadline = begun + timeoutMs;
  let cause: unknown;
  for (;;) {
    try {
      const result = await condition();
      if (result) return result as Exclude<Result, false | null | undefined | 0 | ''>;
      cause = undefined;
    } catch (error) {
      cause = error;
    }
    const now = performance.now();
    if (now >= deadline) throw new Error(`${what} did not hold within ${timeoutMs} ms`, { cause });
    await sleep(options.pauseMs ?? Math.min(longestPauseMs, Math.max(10, (now - begun) / 20)));
  }
}
