/** What the double does wrong, changed while it runs. */
export interface Faults {
  /** Appends are never answered: neither stored, or stored all the same. */
  swallow: 'before-storing' | 'after-storing' | undefined;
  appendDelayMs: number;
  /** How long an append is under way between its storing and its answer; 0 for the next turn. */
  commitMs: number;
  /** After how long an append is given up that repeats one under way: 2 s in the server's default settings. */
  commitTimeoutMs: number;
  /** Whether the server tells clients that it has BatchAppend. */
  batchAppend: boolean;
  /** The question for the server's features fails with INTERNAL. */
  failFeatures: boolean;
  /** Appends fail with this gRPC status code. */
  failAppends: number | undefined;
  /** Subscriptions stay open, and show nothing more. */
  stallSubscriptions: boolean;
  /** As 23.10 does: the subscription of a reader who lags behind while live ends. 24.10 goes back to catching up by itself. */
  dropsSlowReaders: boolean;
  /** Reads are not answered. */
  swallowReads: boolean;
}

export function noFaults(): Faults {
  return {
    swallow: undefined,
    appendDelayMs: 0,
    commitMs: 0,
    commitTimeoutMs: 2_000,
    batchAppend: true,
    failFeatures: false,
    failAppends: undefined,
    stallSubscriptions: false,
    dropsSlowReaders: false,
    swallowReads: false,
  };
}
