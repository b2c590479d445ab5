/** Where in the source of an expression: 1-based, as an editor counts. */
export interface SourcePosition {
  readonly line: number;
  readonly column: number;
}

/**
 * Either error's message may be shown to the caller and logged: it is made of fixed texts, filter and field names and, for
 * syntax errors, parts of the expression — never of data. No `cause` is kept, because an engine's error may quote data.
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

/** An expression that parses but cannot be evaluated over this data, or that exceeds a limit. */
export class ExpressionEvaluationError extends ExpressionError {
  override readonly name = 'ExpressionEvaluationError';
  readonly code = 'expression_evaluation';
}

/** The error, naming `field` if it is an expression error that does not name one yet. */
export function nameField(error: unknown, field: string): unknown {
  if (error instanceof ExpressionSyntaxError)
    return new ExpressionSyntaxError(error.message, error.position, error.field ?? field);
  if (error instanceof ExpressionEvaluationError)
    return new ExpressionEvaluationError(error.message, error.field ?? field);
  return error;
}

/** Runs `work`; an expression error it throws names `field` from here on. */
export function inField<Result>(field: string, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw nameField(error, field);
  }
}
