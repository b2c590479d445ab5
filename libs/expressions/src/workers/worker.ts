// The thread that evaluates expressions of tenants: one job after the other, with new contexts for each. It has no environment variables,
// and gets only the message of a job.
import { readlinkSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';
import { parentPort } from 'node:worker_threads';
import { failed, type Job } from '../job.ts';
import type { Allowance, WorkerAnswer } from '../request.ts';
import { processorMs } from '../meter.ts';
import { perform } from './perform.ts';

export interface JobMessage {
  readonly job: Job;
  readonly allowance: Allowance;
}

export interface AnswerMessage {
  readonly answer: WorkerAnswer;
  /** The processor time of the thread since its start. */
  readonly threadMs: number;
}

const levelsBelow = 10;

/** Requests that need no worker come first (ADR 22). On Linux threads have priorities; lowering its own priority needs no privilege. */
function lowerPriority(): void {
  try {
    const thread = Number(readlinkSync('/proc/thread-self').split('/').at(-1));
    setPriority(thread, Math.min(19, getPriority(thread) + levelsBelow));
  } catch {
    // The thread keeps its priority.
  }
}

function send(answer: WorkerAnswer): void {
  parentPort?.postMessage({ answer, threadMs: processorMs() } satisfies AnswerMessage);
}

lowerPriority();
parentPort?.on('message', ({ job, allowance }: JobMessage) => {
  const answer = perform(job, allowance);
  try {
    send(answer);
  } catch {
    // The value is nested too deeply to be cloned.
    send({ ...answer, outcome: failed('The results of the expressions are too large.') });
  }
});
