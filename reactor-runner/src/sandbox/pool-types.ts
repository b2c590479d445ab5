import type { PresentTenants } from '@token-vault/batching';
import type { AccountRange } from './child-accounts.ts';
import type { RunRequest } from './job.ts';
import type { SandboxLimits } from './limits.ts';
import type { CompileOutcome, RunOutcome } from './outcome.ts';
import type { Walls } from './wall-kinds.ts';

export const defaultRunsPerTenant = 16;

export interface SandboxPoolOptions {
  /** CPU places: the most processes, idle ones included, but not those whose run only waits for the network. Default: 8. */
  readonly maxChildren?: number;
  /**
   * The most runs of one tenant at once, those included that only wait for the network. There are at most twice as many
   * processes, or four times the CPU places when that is more. Default: 16.
   */
  readonly maxRunsPerTenant?: number;
  /** Started processes that are kept for tenants without one. Default: 2. */
  readonly spares?: number;
  /** The time after which a tenant's idle process is ended. Default: 30 s. */
  readonly idleMs?: number;
  /**
   * The most waiting jobs, in all, and of one tenant or one waiting run. A caller has at most half of what the others of its tenant leave.
   * Further ones get `overloaded`. Defaults: 5,000 and 1,000.
   */
  readonly maxQueued?: number;
  readonly maxQueuedPerTenant?: number;
  /** A tenant whose code ends its processes gets one new process in this time. Default: 2 s. */
  readonly lossEachMs?: number;
  /** Whether other tenants use the process. By default those of the process. */
  readonly present?: Pick<PresentTenants, 'isAlone'>;
  /** Ends the probe of the walls, and the wait for the first children, while the pool starts. */
  readonly signal?: AbortSignal;
  readonly limits?: Partial<SandboxLimits>;
  /** Where the service is root: one account for each child. */
  readonly accounts?: AccountRange;
  /** Called once with the walls of the host, and when processes do not start. It never gets guest data. */
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
  /** The busy ones whose run only waits for the network. */
  readonly waiting: number;
  readonly spares: number;
  readonly queued: number;
  readonly walls: Walls;
  readonly pids: readonly number[];
}

export interface SandboxPool {
  /** Runs code once, in its own isolate. Never rejects: every end is an outcome. */
  run(request: RunRequest): Promise<RunOutcome>;
  /** Checks that code compiles, loads and exports a function (rules.md §10), without calling it. */
  compile(request: CompileRequest): Promise<CompileOutcome>;
  stats(): SandboxStats;
  /** Kills the running code (outcome `killed`) and resolves when every process has ended. */
  close(): Promise<void>;
}
