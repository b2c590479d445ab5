export interface Job {
  readonly kind: 'create' | 'read' | 'mixed' | 'list' | 'react';
  readonly port: number;
  readonly key: string;
  readonly connections: number;
  readonly seconds: number;
  /** Tokens to read. */
  readonly ids: readonly string[];
  /** What runs in `react`, with one of the tokens. */
  readonly reactorId?: string;
}

export interface Summary {
  readonly requests: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly failures: number;
  readonly ids: readonly string[];
  /** Of the generator itself. */
  readonly cpuSeconds: number;
}
