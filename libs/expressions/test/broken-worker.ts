// Replaces the thread that evaluates, and breaks it in ways that no known expression can. The data of the job selects the way.
import { parentPort } from 'node:worker_threads';
import type { AnswerMessage, JobMessage } from '../src/workers/worker.ts';

const deeds: Readonly<Record<string, () => void>> = {
  loop: () => {
    for (;;);
  },
  fill: () => {
    const kept: number[][] = [];
    for (;;) kept.push(Array.from({ length: 10_000 }, (_, index) => index + 0.5));
  },
  throw: () => {
    throw new Error('broken');
  },
  exit: () => process.exit(1),
  // Like a thread that gets no CPU time on a busy machine.
  stall: () => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_500),
};

parentPort?.on('message', ({ job }: JobMessage) => {
  const { data: deed } = job.bindings;
  if (typeof deed === 'string') deeds[deed]?.();
  parentPort?.postMessage({
    answer: { outcome: { kind: 'values', values: ['done'] }, used: { ms: 0, memory: 0, output: 0 } },
    threadMs: 0,
  } satisfies AnswerMessage);
});
