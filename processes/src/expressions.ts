import { createExpressions, createExpressionWorkers, type Expressions } from '@token-vault/expressions';
import type { ProcessContext } from './data.ts';

/**
 * The expressions of this process's requests. Worker threads start for an expression that is not simple, and end when
 * no work is left.
 */
export function openExpressions({ closers }: Pick<ProcessContext, 'closers'>): Expressions {
  return createExpressions(closers.add(createExpressionWorkers(), (it) => it.close()));
}
