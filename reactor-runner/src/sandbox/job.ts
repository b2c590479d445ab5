import type { Holder } from '@token-vault/batching';
import type { Json } from '@token-vault/contracts';
import type { EgressFetch } from '@token-vault/egress';
import type { ChildOutcome } from './messages.ts';

/** The calls that guest code may make. Credentials stay on this side. */
export interface HostCalls {
  readonly fetch: EgressFetch;
  /**
   * A method of `req.svc`, named like `tokens.retrieve`, with the positional arguments of the code. A rejection with
   * a numeric `status` (and `problem`) reaches the code as a `ServiceError`, any other as an error without details.
   */
  readonly svc?: (method: string, args: Json) => Promise<Json>;
}

/** The run whose code waits for another run. */
export interface Waiter {
  /** The id of the waiting run. */
  readonly id: string;
  /** The number of runs that the other run is nested in, from 1 on. */
  readonly depth: number;
}

export interface RunRequest {
  readonly tenantId: string;
  /** The owner of the run. Callers of a tenant take turns. */
  readonly caller?: string | undefined;
  readonly code: string;
  readonly args: Json;
  /** The text of `args.body` as JSON. The child parses it, so the service holds no values of it. Text that is no JSON is null for the code. */
  readonly bodyText?: string | undefined;
  readonly configuration: Readonly<Record<string, string>>;
  readonly hasSvc: boolean;
  /** The time limit of the code, from its start in a child. Time in the queue does not count. */
  readonly timeoutMs: number;
  readonly hostCalls: HostCalls;
  /** The id by which the runs that it asks for name it. */
  readonly runId?: string | undefined;
  /** Set when code of another run waits for this one. */
  readonly waiter?: Waiter | undefined;
  /** Aborting removes the run from the queue or kills it. Its outcome is `killed`. */
  readonly signal?: AbortSignal;
}

/** In queues and shares of a tenant each caller counts as an application, and so do the checks of code together. */
export const holderOf = ({ tenantId, caller = '' }: Pick<RunRequest, 'tenantId' | 'caller'>): Holder => ({
  tenantId,
  applicationId: caller,
});

/** A run, or the check of some code, in the pool. */
export interface Job {
  readonly number: number;
  readonly tenantId: string;
  readonly caller: string;
  readonly purpose: 'run' | 'check';
  readonly code: string;
  readonly input: string;
  readonly timeoutMs: number;
  readonly hostCalls: HostCalls | undefined;
  readonly runId?: string | undefined;
  readonly waiter?: Waiter | undefined;
  readonly queuedAt: number;
  /** Whether the run began in the place of the run that waits for it. */
  isLent?: boolean;
  /** Set when the job has a child. */
  execution?: { kill(reason: 'killed'): void; readonly awaitsRun: boolean };
  /** Called once. */
  readonly settle: (outcome: ChildOutcome) => void;
}
