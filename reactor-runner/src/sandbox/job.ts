import type { Json } from '@token-vault/contracts';
import type { EgressFetch } from '../egress/index.ts';
import type { ChildOutcome } from './messages.ts';

/** What guest code may ask of the runner. Credentials stay on this side. */
export interface HostCalls {
  readonly fetch: EgressFetch;
  /**
   * A method of `req.svc`, named like `tokens.retrieve`, with the positional arguments the code gave. A rejection with
   * a numeric `status` (and `problem`) reaches the code as a `ServiceError`; any other as a bare failure.
   */
  readonly svc?: (method: string, args: Json) => Promise<Json>;
}

export interface RunRequest {
  readonly tenantId: string;
  readonly code: string;
  readonly args: Json;
  readonly configuration: Readonly<Record<string, string>>;
  readonly hasSvc: boolean;
  /** Time the code may take, from its start in a child; the time in the queue is not counted. */
  readonly timeoutMs: number;
  readonly hostCalls: HostCalls;
  /** Aborting takes the run out of the queue or kills it; its outcome is `killed`. */
  readonly signal?: AbortSignal;
}

/** A run, or the check of some code, on its way through the pool. */
export interface Job {
  readonly number: number;
  readonly tenantId: string;
  readonly purpose: 'run' | 'check';
  readonly code: string;
  readonly input: string;
  readonly timeoutMs: number;
  readonly hostCalls: HostCalls | undefined;
  readonly queuedAt: number;
  /** From the moment it has a child. */
  execution?: { kill(reason: 'killed'): void };
  /** Called once. */
  readonly settle: (outcome: ChildOutcome) => void;
}
