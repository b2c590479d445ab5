import { runJob, type Job } from '../job.ts';
import { ClockMeter } from '../meter.ts';
import type { Allowance, WorkerAnswer } from '../request.ts';
import { OutputBudget } from '../output-budget.ts';

/** Runs a job within an allowance. @param now a clock in milliseconds, of processor time where available */
export function perform(job: Job, allowance: Allowance, now: () => number): WorkerAnswer {
  const began = now();
  const { ms, memory, output } = allowance;
  const meter = new ClockMeter({ now, ms, memory });
  const outputBudget = new OutputBudget(output);
  const outcome = runJob(job, meter, outputBudget);
  return { outcome, used: { ms: now() - began, memory: meter.memoryUsed, output: outputBudget.used } };
}
