import { FairQueue, presentTenants } from '@token-vault/batching';
import type { Job } from './job.ts';
import { mayBegin, mayBeginInLentPlace, type Places } from './places.ts';
import type { Slots } from './slots.ts';

/** The jobs that wait for a process. */
export class JobQueue {
  readonly #jobs = new FairQueue<Job>();
  /** By the run that waits for them, so that no run stands behind those that another one waits for. */
  readonly #nested = new FairQueue<Job>();
  /** How many nested runs wait, by tenant. */
  readonly #nestedOf = new Map<string, number>();
  readonly #slots: Slots;
  readonly #places: Places;

  constructor(slots: Slots, places: Places) {
    this.#slots = slots;
    this.#places = places;
  }

  get size(): number {
    return this.#jobs.size + this.#nested.size;
  }

  /** The number of jobs in the line of such a job: of its tenant, or of the run that waits for it. */
  sizeBeside({ tenantId, waiter }: Pick<Job, 'tenantId' | 'waiter'>): number {
    return waiter === undefined ? this.#jobs.sizeOf(tenantId) : this.#nested.sizeOf(waiter.id);
  }

  push(job: Job): void {
    const { tenantId, waiter } = job;
    presentTenants.see(tenantId);
    if (waiter === undefined) this.#jobs.push(tenantId, job);
    else {
      this.#nested.push(waiter.id, job);
      this.#count(tenantId, 1);
    }
  }

  /**
   * Offers the jobs that may begin until one is accepted. First nested runs in the places of the runs that wait for them, which takes
   * nothing from others. The other nested runs come last: the run that waits for them has one that runs. No other run of the tenant
   * begins while a nested one waits, because the time of the run that waits for it is running.
   */
  take(accept: (job: Job, isLent: boolean) => boolean): Job | undefined {
    const isFree = ({ tenantId }: Job) => mayBegin(this.#slots, tenantId, this.#places);
    const isLent = (job: Job) => mayBeginInLentPlace(this.#slots, job, this.#places);
    const first = this.#nested.take((_waiter, job) => isLent(job) && accept(job, true));
    const other =
      first ??
      this.#jobs.take(
        (tenantId, job) => !this.#nestedOf.has(tenantId) && isFree(job) && accept(job, false),
      ) ??
      this.#nested.take((_waiter, job) => !isLent(job) && isFree(job) && accept(job, false));
    if (other?.waiter !== undefined) this.#count(other.tenantId, -1);
    return other;
  }

  /** Removes a waiting job; false when it does not wait. */
  remove(job: Job): boolean {
    const { tenantId, waiter } = job;
    if (waiter === undefined) return this.#jobs.remove(tenantId, job);
    const isRemoved = this.#nested.remove(waiter.id, job);
    if (isRemoved) this.#count(tenantId, -1);
    return isRemoved;
  }

  /** Removes all jobs. */
  clear(): Job[] {
    this.#nestedOf.clear();
    return [...this.#jobs.clear(), ...this.#nested.clear()];
  }

  #count(tenantId: string, added: 1 | -1): void {
    const count = (this.#nestedOf.get(tenantId) ?? 0) + added;
    if (count === 0) this.#nestedOf.delete(tenantId);
    else this.#nestedOf.set(tenantId, count);
  }
}
