import { describe, expect, it } from 'vitest';
import { JobQueue } from '../src/sandbox/job-queue.ts';
import type { Job } from '../src/sandbox/job.ts';

const places = { cpu: 8, processes: 32, runsPerTenant: 16, mostRssMb: 1_000 };
const noProcess = { all: () => [], count: () => 0 };
let jobs = 0;

/** `waiterId`: the run that waits for the job. */
function jobOf(caller: string, waiterId?: string): Job {
  const number = ++jobs;
  const waiter = waiterId === undefined ? undefined : { id: waiterId, depth: 1 };
  return {
    number,
    tenantId: 'tenant',
    caller,
    purpose: 'run',
    code: '',
    input: '',
    timeoutMs: 1_000,
    hostCalls: undefined,
    runId: `run ${number}`,
    waiter,
    queuedAt: 0,
    settle: () => undefined,
  };
}

describe('the queue of jobs', () => {
  it('holds other runs of the tenant back while a nested one waits that may have the place of the run that asked for it', () => {
    const queue = new JobQueue(noProcess, places);
    const [plain, nested] = [jobOf('app'), jobOf('app', 'outer')];
    queue.push(plain);
    queue.push(nested);
    expect(queue.take((job) => job === plain)).toBeUndefined();
    expect(queue.take((_job, isLent) => isLent)).toBe(nested);
    expect(queue.take(() => true)).toBe(plain);
  });

  it('lets other runs begin before nested ones that may have no such place', () => {
    // Another run of the same one has its place.
    const queue = new JobQueue({ all: () => [], count: () => 1 }, places);
    const [nested, plain] = [jobOf('app', 'outer'), jobOf('app')];
    queue.push(nested);
    queue.push(plain);
    expect([queue.take(() => true), queue.take(() => true)]).toEqual([plain, nested]);
  });

  it('lets the callers of a tenant take turns', () => {
    const queue = new JobQueue(noProcess, places);
    const [first, second, other] = [jobOf('app'), jobOf('app'), jobOf('other app')];
    [first, second, other].forEach((job) => queue.push(job));
    expect(Array.from({ length: 3 }, () => queue.take(() => true))).toEqual([first, other, second]);
  });

  it('has room for other callers beside those of one that has filled half of what they leave', () => {
    const queue = new JobQueue(noProcess, places, { maxQueued: 5, maxQueuedPerTenant: 4 });
    const mayWait = () =>
      [jobOf('app'), jobOf('other app'), jobOf('app', 'outer')].map((job) => queue.mayWait(job));
    for (const caller of ['app', 'app']) queue.push(jobOf(caller));
    expect(mayWait()).toEqual([false, true, true]);
    for (const caller of ['app', 'app']) queue.push(jobOf(caller, 'outer'));
    expect(mayWait()).toEqual([false, true, true]);
    queue.push(jobOf('other app'));
    expect(mayWait()).toEqual([false, false, false]);
    queue.clear();
    expect(mayWait()).toEqual([true, true, true]);
  });

  it('forgets the nested runs of a run that has ended, also those that come later', () => {
    const queue = new JobQueue(noProcess, places);
    const outer = { ...jobOf('app'), execution: { kill: () => undefined, awaitsRun: true } };
    const [nested, others] = [jobOf('app', outer.runId), jobOf('app', 'another run')];
    queue.push(nested);
    queue.push(others);
    expect(queue.isUnwanted(nested)).toBe(false);
    expect(queue.removeNestedOf(outer)).toEqual([nested]);
    expect([queue.size, queue.isUnwanted(nested), queue.isUnwanted(others)]).toEqual([1, true, false]);
    // As code of a proxy does, for the answer.
    queue.push(outer);
    expect(queue.isUnwanted(nested)).toBe(false);
  });
});
