import { randomInt } from 'node:crypto';
import { AssertionError, toValueSync } from 'liquidjs';
import { createContext, engine, LimitError, type Evaluation } from './engine.ts';
import { ExpressionEvaluationError } from './errors.ts';
import { FilterArgumentError, FilterValueError, type RandomInt } from './filters/index.ts';
import { measure, type Json } from './json.ts';
import { limits } from './limits.ts';
import type { Compiled } from './compile.ts';

/** The names an expression sees. `metadata` is bound in `fingerprint_expression` only (decisions.md §4). */
export interface Bindings {
  readonly data: Json;
  readonly metadata?: Json;
}

export interface EvaluationOptions {
  /** Source of the random characters of aliases; node:crypto's `randomInt` by default. For tests. */
  readonly random?: RandomInt;
}

const tooSlow = 'The expression takes too much time.';

const cryptoRandom: RandomInt = (exclusiveMax) => randomInt(exclusiveMax);

export function startEvaluation(
  bindings: Bindings,
  options: EvaluationOptions = {},
  deadline = performance.now() + limits.renderMs,
): Evaluation {
  const scope: Record<string, Json> = { data: bindings.data };
  if (bindings.metadata !== undefined) scope.metadata = bindings.metadata;
  return { scope, random: options.random ?? cryptoRandom, deadline };
}

/**
 * Evaluates an expression. Exactly one `{{ … }}` gives the value in its JSON type, null when a property is missing; with text
 * or tags around it the outputs are concatenated to a string.
 * @throws {ExpressionEvaluationError} when a filter does not suit the value, or a limit is passed. Never quotes data.
 */
export function evaluate(compiled: Compiled, bindings: Bindings, options?: EvaluationOptions): Json {
  return evaluateIn(compiled, startEvaluation(bindings, options));
}

/** `evaluate`, for several expressions that share bindings and limits. */
export function evaluateIn(compiled: Compiled, evaluation: Evaluation): Json {
  // The engine has a clock of its own; this one also stops a thousand cheap expressions over half a megabyte.
  if (performance.now() > evaluation.deadline) throw new ExpressionEvaluationError(tooSlow);
  try {
    switch (compiled.kind) {
      case 'text':
        return compiled.text;
      case 'direct':
        return compiled.direct(evaluation.scope, evaluation.random);
      case 'value':
        return toJson(toValueSync(compiled.value.value(createContext(evaluation), false)));
      case 'template':
        return toValueSync(
          engine.renderer.renderTemplates(compiled.templates, createContext(evaluation)),
        ) as string;
    }
  } catch (error) {
    throw toEvaluationError(error);
  }
}

/** Filters of Liquid may give undefined, NaN or a drop, also inside an array; writing the value as JSON settles all of them. */
function toJson(value: unknown): Json {
  if (typeof value === 'string' || typeof value === 'boolean') return value;
  if (typeof value === 'number') return Number.isFinite(value) ? value : null;
  if (value === null || value === undefined) return null;
  if (measure(value, limits.value) > limits.value) throw new LimitError('result');
  const text = JSON.stringify(value.valueOf()) as string | undefined;
  return text === undefined ? null : (JSON.parse(text) as Json);
}

const filterErrors = [FilterValueError, FilterArgumentError];

/**
 * The engine's own messages and errors may quote data (`RenderError` wraps what a filter threw): only errors of ours and
 * its two limit messages are passed on, everything else becomes a fixed text.
 */
function toEvaluationError(error: unknown): ExpressionEvaluationError {
  const origin: unknown =
    error instanceof Error && 'originalError' in error ? (error.originalError ?? error) : error;
  if (filterErrors.some((type) => origin instanceof type))
    return new ExpressionEvaluationError((origin as Error).message);
  if (origin instanceof LimitError)
    return new ExpressionEvaluationError('The expression takes too much memory.');
  if (origin instanceof AssertionError && origin.message === 'memory alloc limit exceeded')
    return new ExpressionEvaluationError('The expression takes too much memory.');
  if (origin instanceof AssertionError && origin.message === 'template render limit exceeded')
    return new ExpressionEvaluationError(tooSlow);
  return new ExpressionEvaluationError('The expression cannot be evaluated over this data.');
}
