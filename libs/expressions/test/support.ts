import { randomInt } from 'node:crypto';
import { compileExpression } from '../src/compile.ts';
import { evaluateIn } from '../src/evaluate.ts';
import type { Bindings } from '../src/evaluation.ts';
import type { RandomInt } from '../src/filters/index.ts';
import { createInlineWorkers, limits, RequestExpressions, type Json } from '../src/index.ts';
import { ClockMeter } from '../src/meter.ts';

/** Evaluates one expression as a worker would, on this thread. */
export function evaluateOne(
  source: string,
  { data, metadata }: Bindings,
  random: RandomInt = randomInt,
): Json {
  const scope = metadata === undefined ? { data } : { data, metadata };
  const meter = new ClockMeter({ ms: limits.jobMs, memory: limits.memory });
  return evaluateIn(compileExpression(source), { scope, random, meter });
}

/** A new request, without threads. */
export const newRequest = (): RequestExpressions =>
  new RequestExpressions({ tenantId: 'tenant', applicationId: 'a' }, createInlineWorkers());

export const run = (expression: string, data: Json, metadata?: Json): Json =>
  evaluateOne(expression, metadata === undefined ? { data } : { data, metadata });

/** Data with a value of each JSON type. */
export const sample = {
  n: 5,
  t: 'x',
  f: false,
  list: [1, 'a', null],
  inner: { a: { b: [10, 20] } },
  empty: '',
  none: null,
};
