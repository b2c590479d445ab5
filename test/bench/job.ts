export interface Job {
  readonly kind: 'create' | 'read' | 'mixed' | 'list' | 'react' | 'batch' | 'detokenize' | 'proxy';
  readonly port: number;
  readonly key: string;
  readonly connections: number;
  readonly seconds: number;
  /** The ids of tokens to read. */
  readonly ids: readonly string[];
  /** The reactor of `react`. It gets one of the tokens. */
  readonly reactorId?: string;
  /** The destination of `proxy`. */
  readonly destination?: string;
  /** The requests go straight to a server with this certificate at `port`, not to the vault. */
  readonly ca?: string;
}

export interface Summary {
  readonly requests: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly failures: number;
  readonly ids: readonly string[];
  /** The CPU time of the generator itself. */
  readonly cpuSeconds: number;
}
