/** What the double does wrong, changed while it runs. */
export interface Faults {
  /** Appends are never answered: neither stored, or stored all the same. */
  swallow: 'before-storing' | 'after-storing' | undefined;
  appendDelayMs: number;
  /** Whether the server tells clients that it has BatchAppend. */
  batchAppend: boolean;
  /** The question for the server's features fails with INTERNAL. */
  failFeatures: boolean;
  /** Appends fail with this gRPC status code. */
  failAppends: number | undefined;
  /** Subscriptions stay open, and show nothing more. */
  stallSubscriptions: boolean;
  /** Reads are not answered. */
  swallowReads: boolean;
}

export function noFaults(): Faults {
  return {
    swallow: undefined,
    appendDelayMs: 0,
    batchAppend: true,
    failFeatures: false,
    failAppends: undefined,
    stallSubscriptions: false,
    swallowReads: false,
  };
}
