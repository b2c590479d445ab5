import type { ExpressionWorkers } from '../request.ts';
import { perform } from './perform.ts';

/** For tests: evaluates on the caller's own thread, which a step of the engine may block for any time. */
export function createInlineWorkers(): ExpressionWorkers {
  return {
    run: async (_holder, job, allowance) => perform(job, allowance),
    close: async () => undefined,
  };
}
