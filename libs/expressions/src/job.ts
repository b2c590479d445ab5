import { randomInt } from 'node:crypto';
import { compileExpression, isCompiled } from './compile.ts';
import { ExpressionEvaluationError, ExpressionSyntaxError, type SourcePosition } from './errors.ts';
import { evaluateIn } from './evaluate.ts';
import type { Bindings, Evaluation } from './evaluation.ts';
import type { RandomInt } from './filters/index.ts';
import type { Json } from './json.ts';
import { limits } from './limits.ts';
import { LimitError, type Meter } from './meter.ts';
import type { OutputBudget } from './output-budget.ts';

/** Expressions over the same data, evaluated together. A job can be sent to another thread. */
export interface Job {
  readonly sources: readonly string[];
  readonly bindings: Bindings;
}

/** The failure of the expression with that index. */
export interface JobFailure {
  readonly index: number;
  readonly kind: 'syntax' | 'evaluation';
  readonly message: string;
  readonly position?: SourcePosition;
}

/** The values in order, or all syntax errors, or the first evaluation error. */
export type JobOutcome =
  | { readonly kind: 'values'; readonly values: readonly Json[] }
  | { readonly kind: 'failed'; readonly failures: readonly JobFailure[] };

const cryptoRandom: RandomInt = (exclusiveMax) => randomInt(exclusiveMax);

/** @throws {NeedsWorkerError} when the meter does not allow the job on this thread */
export function runJob({ sources, bindings }: Job, meter: Meter, outputBudget: OutputBudget): JobOutcome {
  const values: Json[] = [];
  try {
    const failures = syntaxFailures(sources, meter);
    if (failures.length > 0) return { kind: 'failed', failures };
    const scope: Record<string, Json> = { data: bindings.data };
    if (bindings.metadata !== undefined) scope.metadata = bindings.metadata;
    const evaluation: Evaluation = { scope, random: cryptoRandom, meter };
    for (const source of sources) values.push(valueOf(source, evaluation, outputBudget));
    return { kind: 'values', values };
  } catch (error) {
    if (!(error instanceof ExpressionEvaluationError || error instanceof LimitError)) throw error;
    return failed(error.message, values.length);
  }
}

/** The outcome when an expression cannot be evaluated. */
export function failed(message: string, index = 0): JobOutcome {
  return { kind: 'failed', failures: [{ index, kind: 'evaluation', message }] };
}

function syntaxFailures(sources: readonly string[], meter: Meter): JobFailure[] {
  const failures: JobFailure[] = [];
  sources.forEach((source, index) => {
    if (!isCompiled(source)) meter.spend(source.length * limits.stepsOfParsing);
    try {
      compileExpression(source);
    } catch (error) {
      if (!(error instanceof ExpressionSyntaxError)) throw error;
      const { message, position } = error;
      failures.push({ index, kind: 'syntax', message, ...(position && { position }) });
    }
  });
  return failures;
}

function valueOf(source: string, evaluation: Evaluation, outputBudget: OutputBudget): Json {
  const { meter } = evaluation;
  const value = evaluateIn(compileExpression(source), evaluation);
  if (typeof value === 'object' && value !== null) meter.spendOn(value, 1);
  if (outputBudget.admits(value)) return value;
  throw new ExpressionEvaluationError('The results of the expressions are too large.');
}
