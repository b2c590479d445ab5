import { FairQueue, presentTenants, TenantQueue } from '@token-vault/batching';
import { EndedRuns } from './ended-runs.ts';
import { holderOf, type Job } from './job.ts';
import { mayBegin, mayBeginInLentPlace, type BusySlots, type Places } from './places.ts';
import type { SandboxPoolOptions } from './pool-types.ts';

/** The jobs that wait for a process. */
export class JobQueue {
  readonly #jobs: TenantQueue<Job>;
  /** By the run that waits for them, so that no run stands behind those that another one waits for. */
  readonly #nested = new FairQueue<Job>();
  readonly #endedRuns = new EndedRuns();
  readonly #slots: BusySlots;
  readonly #places: Places;
  readonly #maxQueued: number;
  readonly #maxQueuedPerTenant: number;

  constructor(
    slots: BusySlots,
    places: Places,
    {
      maxQueued = 5_000,
      maxQueuedPerTenant = 1_000,
    }: Pick<SandboxPoolOptions, 'maxQueued' | 'maxQueuedPerTenant'> = {},
  ) {
    this.#slots = slots;
    this.#places = places;
    this.#maxQueued = maxQueued;
    this.#maxQueuedPerTenant = maxQueuedPerTenant;
    this.#jobs = new TenantQueue(maxQueuedPerTenant);
  }

  get size(): number {
    return this.#jobs.size + this.#nested.size;
  }

  /** Whether there is room for such a job: in the queue, and among those of its tenant or of the run that waits for it. */
  mayWait(job: Pick<Job, 'tenantId' | 'caller' | 'waiter'>): boolean {
    const { waiter } = job;
    if (this.size >= this.#maxQueued) return false;
    if (waiter === undefined) return this.#jobs.mayWait(holderOf(job));
    return this.#nested.sizeOf(waiter.id) < this.#maxQueuedPerTenant;
  }

  push(job: Job): void {
    const { runId, waiter } = job;
    presentTenants.see(job.tenantId);
    // Code of a proxy runs twice under one id: for the request and for the answer.
    if (runId !== undefined) this.#endedRuns.delete(runId);
    if (waiter === undefined) this.#jobs.push(holderOf(job), job);
    else this.#nested.push(waiter.id, job);
  }

  /**
   * Offers the jobs that may begin until one is accepted. First nested runs in the places of the runs that wait for them, which takes
   * nothing from others. While such a one waits for a process, no other run of the tenant begins, because the time of the run that waits
   * for it is running. The other nested runs come last, and delay no other caller: the run that waits for them has one that runs.
   */
  take(accept: (job: Job, isLent: boolean) => boolean): Job | undefined {
    const heldBack = new Set<string>();
    const isFree = (tenantId: string) => mayBegin(this.#slots, tenantId, this.#places);
    const mayBeLent = (job: Job) => mayBeginInLentPlace(this.#slots, job, this.#places);
    const first = this.#nested.take((_waiter, job) => {
      if (!mayBeLent(job)) return false;
      heldBack.add(job.tenantId);
      return accept(job, true);
    });
    return (
      first ??
      this.#jobs.take(
        (tenantId) => !heldBack.has(tenantId) && isFree(tenantId),
        (job) => accept(job, false),
      ) ??
      this.#nested.take((_waiter, job) => !mayBeLent(job) && isFree(job.tenantId) && accept(job, false))
    );
  }

  /** Removes a waiting job; false when it does not wait. */
  remove(job: Job): boolean {
    const { waiter } = job;
    return waiter === undefined ? this.#jobs.remove(holderOf(job), job) : this.#nested.remove(waiter.id, job);
  }

  /**
   * The run has ended, so no run waits any more for the runs that it asked for. Removes those that have not begun. Those that have begun
   * have no more time than it had.
   */
  removeNestedOf({ runId, execution }: Job): Job[] {
    if (runId === undefined) return [];
    if (execution?.awaitsRun === true) this.#endedRuns.add(runId);
    return this.#nested.removeAll(runId);
  }

  /** Whether the run that asked for this one has ended. */
  isUnwanted({ waiter }: Pick<Job, 'waiter'>): boolean {
    return waiter !== undefined && this.#endedRuns.has(waiter.id);
  }

  /** Removes all jobs. */
  clear(): Job[] {
    return [...this.#jobs.clear(), ...this.#nested.clear()];
  }
}
