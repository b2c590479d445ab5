export type Work = { readonly url: string } & (
  | { readonly kind: 'rebuild' | 'verify'; readonly projection: string }
  | { readonly kind: 'audit verify'; readonly rootKey: string }
  | { readonly kind: 'audit export'; readonly tenantId: string }
);

export interface Measurement {
  /** Read, whether the projection has a use for them or not. */
  readonly events: number;
  readonly seconds: number;
  /** Of this process, without Postgres. */
  readonly cpuSeconds: number;
  readonly earlyMemoryMb: number;
  readonly peakMemoryMb: number;
}
