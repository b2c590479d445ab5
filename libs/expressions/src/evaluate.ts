import { toValueSync } from 'liquidjs';
import { createContext, engine } from './engine.ts';
import type { Evaluation } from './evaluation.ts';
import { ExpressionEvaluationError } from './errors.ts';
import { FilterArgumentError, FilterValueError } from './filters/index.ts';
import { measure, type Json } from './json.ts';
import { limits } from './limits.ts';
import { NeedsWorkerError, LimitError, tooLarge } from './meter.ts';
import type { Compiled } from './compile.ts';

/**
 * Evaluates an expression. Exactly one `{{ … }}` gives the value in its JSON type, null when a property is missing. With text or tags
 * around it, the outputs are concatenated to a string.
 * @throws {ExpressionEvaluationError} when a filter cannot handle the value, or a limit is exceeded. Never quotes data.
 * @throws {NeedsWorkerError} when the meter does not allow the evaluation on this thread
 */
export function evaluateIn(compiled: Compiled, evaluation: Evaluation): Json {
  if (compiled.kind === 'text') return compiled.text;
  try {
    const { direct, value, templates } = compiled;
    const shown = direct?.evaluate(evaluation);
    if (shown !== undefined) return shown;
    const context = createContext(evaluation);
    if (value) return toJson(toValueSync(value.value(context, false)));
    return toValueSync(engine.renderer.renderTemplates([...templates], context)) as string;
  } catch (error) {
    throw toEvaluationError(error);
  }
}

/** Filters of Liquid may return undefined, NaN or a drop, also inside an array. Writing the value as JSON removes these. */
function toJson(value: unknown): Json {
  if (typeof value === 'string' || typeof value === 'boolean') return value;
  if (typeof value === 'number') return Number.isFinite(value) ? value : null;
  if (value === null || value === undefined) return null;
  if (measure(value, limits.value) > limits.value) throw new LimitError(tooLarge);
  const text = JSON.stringify(value.valueOf()) as string | undefined;
  return text === undefined ? null : (JSON.parse(text) as Json);
}

const ourErrors = [FilterValueError, FilterArgumentError, LimitError];

/**
 * Messages and errors of the engine may quote data (`RenderError` wraps the error of a filter). Only our own errors are passed on; all
 * others become a fixed text.
 */
function toEvaluationError(error: unknown): Error {
  const origin: unknown =
    error instanceof Error && 'originalError' in error ? (error.originalError ?? error) : error;
  if (origin instanceof NeedsWorkerError) return origin;
  if (ourErrors.some((type) => origin instanceof type))
    return new ExpressionEvaluationError((origin as Error).message);
  return new ExpressionEvaluationError('The expression cannot be evaluated over this data.');
}
