import type { AccountRange } from './child-accounts.ts';
import type { RunRequest } from './job.ts';
import type { SandboxLimits } from './limits.ts';
import type { CompileOutcome, RunOutcome } from './outcome.ts';
import type { Walls } from './wall-kinds.ts';

export interface SandboxPoolOptions {
  /** Processes at most, idle ones included. Default: 8. */
  readonly maxChildren?: number;
  /** Processes kept started for tenants that have none. Default: 2. */
  readonly spares?: number;
  /** A tenant's idle process is given up after this time. Default: 30 s. */
  readonly idleMs?: number;
  /** Jobs waiting at most, in all and of one tenant; more are answered `overloaded`. Defaults: 5,000 and 1,000. */
  readonly maxQueued?: number;
  readonly maxQueuedPerTenant?: number;
  /** After how long a tenant whose code ends its processes gets one more. Default: 2 s. */
  readonly lossEachMs?: number;
  readonly limits?: Partial<SandboxLimits>;
  /** Where the service is root: one for each child. */
  readonly accounts?: AccountRange;
  /** Told once which walls stand, and of processes that do not start. Never gets guest data. */
  readonly report?: (event: SandboxReport) => void;
}

export type SandboxReport =
  { readonly kind: 'walls'; readonly walls: Walls } | { readonly kind: 'children-do-not-start' };

export interface CompileRequest {
  readonly tenantId: string;
  readonly code: string;
}

export interface SandboxStats {
  readonly children: number;
  readonly busy: number;
  readonly spares: number;
  readonly queued: number;
  readonly walls: Walls;
  readonly pids: readonly number[];
}

export interface SandboxPool {
  /** Runs code once, in an isolate of its own. Never rejects: whatever happens is an outcome. */
  run(request: RunRequest): Promise<RunOutcome>;
  /** Checks that code compiles, loads and exports a function (rules.md §10), without calling it. */
  compile(request: CompileRequest): Promise<CompileOutcome>;
  stats(): SandboxStats;
  /** Kills what runs (outcome `killed`) and resolves when every process is gone. */
  close(): Promise<void>;
}
