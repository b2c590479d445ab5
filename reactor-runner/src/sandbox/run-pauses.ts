import { presentTenants } from '@token-vault/batching';
import { createAllowance, type Allowance } from './allowance.ts';
import type { Job } from './job.ts';
import type { SandboxPoolOptions } from './pool-types.ts';

/**
 * A start costs 175 ms of CPU time. A tenant whose code ends its children gets this many starts at once, and then one
 * each two seconds. Only its own runs wait for them.
 */
const lossesAtOnce = 8;
const defaultLossEachMs = 2_000;
/**
 * While other tenants use the process, a tenant begins this many runs at once, and then one in each 8 ms. A run takes some 2 ms of the thread
 * that serves all tenants, so that the runs of a tenant get a quarter of it (ADR 26).
 */
const runsAtOnce = 16;
const runEachMs = 8;

/** How long runs of a tenant wait, so that other tenants are served. */
export class RunPauses {
  readonly #losses: Allowance;
  readonly #runs = createAllowance(runsAtOnce, runEachMs);
  readonly #present: NonNullable<SandboxPoolOptions['present']>;

  constructor({ lossEachMs = defaultLossEachMs, present = presentTenants }: SandboxPoolOptions) {
    this.#losses = createAllowance(lossesAtOnce, lossEachMs);
    this.#present = present;
  }

  /** A run of the tenant has ended its process. */
  lost(tenantId: string): void {
    this.#losses.spend(tenantId);
  }

  begun(tenantId: string): void {
    if (!this.#present.isAlone(tenantId)) this.#runs.spend(tenantId);
  }

  /** Milliseconds until the job may begin. A nested run does not wait for the runs before it, because the time of its waiter is running. */
  waitMs({ tenantId, waiter }: Pick<Job, 'tenantId' | 'waiter'>, needsProcess: boolean): number {
    const afterLosses = needsProcess ? this.#losses.waitMs(tenantId) : 0;
    return Math.max(afterLosses, waiter === undefined ? this.#runs.waitMs(tenantId) : 0);
  }
}
