import { compiledOf, containsExpression } from './compile.ts';
import type { Direct } from './direct.ts';
import { ExpressionEvaluationError, ExpressionSyntaxError, type SourcePosition } from './errors.ts';
import { fieldPath } from './field-path.ts';
import type { JobFailure } from './job.ts';
import type { Json } from './json.ts';
import { limits } from './limits.ts';
import { mapStrings } from './map-strings.ts';
import { JobFailedError, toExpressionError, type RequestExpressions } from './request.ts';

/** One fault of a mask. `field` is a path such as `mask.number` or `mask.names[0]`. */
export interface MaskIssue {
  readonly field: string;
  /** Whether it depends on the data (`evaluation`) or on the mask alone. */
  readonly kind: JobFailure['kind'];
  readonly message: string;
  readonly position?: SourcePosition;
}

/**
 * Evaluates a mask of any shape over `data`: each string in the mask is an expression, other leaves are literals, and fields that the mask
 * does not name are not shown. Returns no promise when all expressions are simple.
 * @throws {ExpressionEvaluationError} or {ExpressionSyntaxError}; `field` is the path in the mask.
 */
export function renderMask(expressions: RequestExpressions, mask: Json, data: Json): Json | Promise<Json> {
  const sources = sourcesOf(mask);
  if (sources.length === 0) return mask;
  const fail = (error: unknown): never => {
    throw error instanceof JobFailedError ? errorOf(mask, error.failures) : error;
  };
  try {
    const values = expressions.evaluate(sources, { data });
    return values instanceof Promise ? values.then((it) => fill(mask, it), fail) : fill(mask, values);
  } catch (error) {
    return fail(error);
  }
}

export interface CheckedMask {
  /** All expressions with syntax errors, or the first one that cannot be evaluated. */
  readonly issues: readonly MaskIssue[];
  /** The value of a mask without issues. */
  readonly shown?: Json;
}

/** All faults of a mask for the data that it is stored with. When there are none, the masked data. */
export async function checkMask(
  expressions: RequestExpressions,
  mask: Json,
  data: Json,
): Promise<CheckedMask> {
  try {
    const sources = sourcesOf(mask);
    return { issues: [], shown: fill(mask, await expressions.evaluate(sources, { data })) };
  } catch (error) {
    if (error instanceof JobFailedError)
      return { issues: error.failures.map((failure) => issueOf(mask, failure)) };
    if (error instanceof ExpressionSyntaxError)
      return { issues: [{ field: 'mask', kind: 'syntax', message: error.message }] };
    throw error;
  }
}

/** When the data has no property of such a name, the name means a property of the data itself, such as its size. */
const computed: ReadonlySet<string | number> = new Set(['size', 'first', 'last']);

/**
 * Whether the mask may read this property of the data. True as well for a mask that was not evaluated yet, and for one that is not simple:
 * nothing is parsed to find out.
 */
export function mayRead(mask: Json, property: string): boolean {
  const simple = directOf(mask);
  if (simple === undefined) return true;
  return simple.some(({ paths }) =>
    paths.some(
      ([root, key]) => root === 'data' && (typeof key !== 'string' || key === property || computed.has(key)),
    ),
  );
}

/** Whether all expressions of the mask are simple. False as well for a mask that was not evaluated yet: nothing is parsed to find out. */
export const isSimple = (mask: Json): boolean => directOf(mask) !== undefined;

/** The short cuts of the expressions. Undefined when one of them has none, or was not evaluated yet. */
function directOf(mask: Json): readonly Direct[] | undefined {
  let sources: readonly string[];
  try {
    sources = sourcesOf(mask);
  } catch {
    // The evaluation reports the error.
    return undefined;
  }
  const found: Direct[] = [];
  for (const source of sources) {
    const compiled = compiledOf(source);
    if (compiled?.kind !== 'template' || compiled.direct === undefined) return undefined;
    found.push(compiled.direct);
  }
  return found;
}

/** The expressions in order. @throws {ExpressionSyntaxError} when there are too many, or too deep ones */
function sourcesOf(mask: Json): readonly string[] {
  const sources: string[] = [];
  mapStrings('mask', mask, (text) => {
    if (containsExpression(text)) sources.push(text);
    return text;
  });
  if (sources.length > limits.maskExpressions)
    throw new ExpressionSyntaxError(
      `A mask must have at most ${limits.maskExpressions} expressions.`,
      undefined,
      'mask',
    );
  return sources;
}

function fill(mask: Json, values: readonly Json[]): Json {
  let next = 0;
  return mapStrings('mask', mask, (text) => (containsExpression(text) ? (values[next++] ?? null) : text));
}

function fieldOf(mask: Json, index: number): string {
  let count = 0;
  let field = 'mask';
  mapStrings('mask', mask, (text, path) => {
    if (containsExpression(text) && count++ === index) field = fieldPath('mask', path);
    return text;
  });
  return field;
}

function issueOf(mask: Json, { index, kind, message, position }: JobFailure): MaskIssue {
  return { field: fieldOf(mask, index), kind, message, ...(position && { position }) };
}

function errorOf(mask: Json, [first]: readonly JobFailure[]): Error {
  if (first === undefined) return new ExpressionEvaluationError('The mask cannot be evaluated.', 'mask');
  return toExpressionError(first, fieldOf(mask, first.index));
}
