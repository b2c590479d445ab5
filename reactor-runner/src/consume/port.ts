import type { RecordedEvent } from '@token-vault/event-store';

/** Brings every ReactorInvoked to a runner, at least once. */
export interface InvocationFeed {
  /**
   * Hands over invocations, several at a time, until `signal` aborts. One counts as handled when `handle` resolves; one that
   * rejects is tried again. A feed that is full holds its source, never memory.
   */
  run(handle: (event: RecordedEvent) => Promise<void>, signal: AbortSignal): Promise<void>;
}
