import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Waits until `condition` gives a truthy value, and gives that value. An error of `condition` counts as not yet.
 * After `timeoutMs` (10 s by default) the last error is the cause of the failure.
 */
export async function waitUntil<Result>(
  condition: () => Result | Promise<Result>,
  options: { readonly timeoutMs?: number; readonly what?: string } = {},
): Promise<Exclude<Result, false | null | undefined | 0 | ''>> {
  const { timeoutMs = 10_000, what = 'the condition' } = options;
  const deadline = performance.now() + timeoutMs;
  let cause: unknown;
  for (;;) {
    try {
      const result = await condition();
      if (result) return result as Exclude<Result, false | null | undefined | 0 | ''>;
      cause = undefined;
    } catch (error) {
      cause = error;
    }
    if (performance.now() >= deadline)
      throw new Error(`${what} did not hold within ${timeoutMs} ms`, { cause });
    await sleep(10);
  }
}
