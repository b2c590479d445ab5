/** The faults of the double, changed while it runs. */
export interface Faults {
  /** Appends are never answered: either not stored, or stored. */
  swallow: 'before-storing' | 'after-storing' | undefined;
  appendDelayMs: number;
  /** The time between storing an append and answering it. 0: the next turn of the event loop. */
  commitMs: number;
  /** The time after which an append that repeats a running one fails: 2 s in the server's default settings. */
  commitTimeoutMs: number;
  /** Whether the server has BatchAppend, and tells clients so. */
  batchAppend: boolean;
  /** The request for the server's features fails with INTERNAL. */
  failFeatures: boolean;
  /** Appends fail with this gRPC status code, in BatchAppend their whole call. */
  failAppends: number | undefined;
  /** Subscriptions stay open and give no more events. */
  stallSubscriptions: boolean;
  /** True: the subscription of a slow live reader ends, as in 23.10. 24.10 goes back to catching up by itself. */
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
