/** rules.md §10: the first attempt and up to 10 retries, the first after about 2 s, about 2.5 hours in all. */
const maxAttempts = 11;
const firstRetryMs = 2_000;
const factor = 2.4;

/** The time of the next attempt after `attempt` (counted from 1) has failed. Undefined when it was the last. */
export function retryAfter(attempt: number, now: Date): Date | undefined {
  if (attempt >= maxAttempts) return undefined;
  return new Date(now.getTime() + Math.round(firstRetryMs * factor ** (attempt - 1)));
}
