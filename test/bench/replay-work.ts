export type Work = { readonly url: string } & (
  | { readonly kind: 'rebuild' | 'verify'; readonly projection: string }
  | { readonly kind: 'audit verify'; readonly rootKey: string }
  | { readonly kind: 'audit export'; readonly tenantId: string }
);

export interface Measurement {
  /** The number of events read, whether or not the projection uses them. */
  readonly events: number;
  readonly seconds: number;
  /** The CPU time of this process, without Postgres. */
  readonly cpuSeconds: number;
  readonly earlyMemoryMb: number;
  readonly peakMemoryMb: number;
}
