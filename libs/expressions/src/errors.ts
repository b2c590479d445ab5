/** A position in the source of an expression: 1-based, as in an editor. */
export interface SourcePosition {
  readonly line: number;
  readonly column: number;
}

/**
 * The message of either error may be shown to the caller and logged. It consists of fixed texts, filter and field names and, for syntax
 * errors, parts of the expression; never of data. No `cause` is kept, because an error of the engine may quote data.
 */
abstract class ExpressionError extends Error {
  abstract readonly code: string;
  /** Path of the field that holds the expression, such as `mask.number`, once known. */
  readonly field: string | undefined;

  constructor(message: string, field?: string) {
    super(message);
    this.field = field;
  }
}

/** An expression that does not parse, names an unknown filter or tag, or gives a filter impossible literal arguments. */
export class ExpressionSyntaxError extends ExpressionError {
  override readonly name = 'ExpressionSyntaxError';
  readonly code = 'expression_syntax';
  readonly position: SourcePosition | undefined;

  constructor(message: string, position?: SourcePosition, field?: string) {
    super(message, field);
    this.position = position;
  }
}

/** A valid expression cannot be evaluated over this data, or exceeds a limit. */
export class ExpressionEvaluationError extends ExpressionError {
  override readonly name = 'ExpressionEvaluationError';
  readonly code = 'expression_evaluation';
}

/** Adds `field` to an expression error that has no field yet; returns other errors unchanged. */
export function nameField(error: unknown, field: string): unknown {
  if (error instanceof ExpressionSyntaxError)
    return new ExpressionSyntaxError(error.message, error.position, error.field ?? field);
  if (error instanceof ExpressionEvaluationError)
    return new ExpressionEvaluationError(error.message, error.field ?? field);
  return error;
}
