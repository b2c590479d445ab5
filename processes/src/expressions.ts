import { createExpressions, createExpressionWorkers, type Expressions } from '@token-vault/expressions';
import type { ProcessContext } from './data.ts';

/** The expressions of this process's requests. Threads start when one is not simple, and end when nothing is left to do. */
export function openExpressions({ closers }: Pick<ProcessContext, 'closers'>): Expressions {
  return createExpressions(closers.add(createExpressionWorkers(), (it) => it.close()));
}
