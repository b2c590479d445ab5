/**
 * Waiting jobs by tenant, taken in turns: however many jobs one tenant has queued, another waits for at most one of
 * them per free child.
 */
export interface FairQueue<Job> {
  readonly size: number;
  sizeOf(tenantId: string): number;
  push(tenantId: string, job: Job): void;
  remove(tenantId: string, job: Job): boolean;
  /** Offers the oldest job of each tenant in turn until one is taken; a tenant served goes to the end of the round. */
  takeFirst(accept: (tenantId: string, job: Job) => boolean): boolean;
  clear(): Job[];
}

export function createFairQueue<Job>(): FairQueue<Job> {
  // A Map keeps insertion order: its first key is the tenant whose turn it is.
  const waiting = new Map<string, Job[]>();
  let size = 0;

  const dropFrom = (tenantId: string, jobs: Job[], index: number): void => {
    jobs.splice(index, 1);
    size -= 1;
    if (jobs.length === 0) waiting.delete(tenantId);
  };

  return {
    get size() {
      return size;
    },
    sizeOf: (tenantId) => waiting.get(tenantId)?.length ?? 0,
    push(tenantId, job) {
      const jobs = waiting.get(tenantId);
      if (jobs === undefined) waiting.set(tenantId, [job]);
      else jobs.push(job);
      size += 1;
    },
    remove(tenantId, job) {
      const jobs = waiting.get(tenantId);
      const index = jobs?.indexOf(job) ?? -1;
      if (jobs === undefined || index < 0) return false;
      dropFrom(tenantId, jobs, index);
      return true;
    },
    takeFirst(accept) {
      for (const [tenantId, jobs] of waiting) {
        const [job] = jobs;
        if (job === undefined || !accept(tenantId, job)) continue;
        jobs.shift();
        size -= 1;
        // To the end of the round.
        waiting.delete(tenantId);
        if (jobs.length > 0) waiting.set(tenantId, jobs);
        return true;
      }
      return false;
    },
    clear() {
      const jobs = [...waiting.values()].flat();
      waiting.clear();
      size = 0;
      return jobs;
    },
  };
}
