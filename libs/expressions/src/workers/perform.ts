import { runJob, type Job } from '../job.ts';
import { ClockMeter, processorMs } from '../meter.ts';
import type { Allowance, WorkerAnswer } from '../request.ts';
import { OutputBudget } from '../output-budget.ts';

/** Runs a job within an allowance. */
export function perform(job: Job, { ms, memory, output }: Allowance): WorkerAnswer {
  const began = processorMs();
  const meter = new ClockMeter({ ms, memory });
  const outputBudget = new OutputBudget(output);
  const outcome = runJob(job, meter, outputBudget);
  return {
    outcome,
    used: { ms: processorMs() - began, memory: meter.memoryUsed, output: outputBudget.used },
  };
}
