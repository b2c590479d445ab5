import { compileExpression } from './compile.ts';
import { ExpressionEvaluationError, ExpressionSyntaxError } from './errors.ts';
import { fieldPath } from './field-path.ts';
import type { Json } from './json.ts';
import { limits } from './limits.ts';
import { mapStrings } from './map-strings.ts';
import { outputText } from './output-text.ts';
import { scanArgument, tooManyReferences, type TokenReference } from './reference-scanner.ts';
import { JobFailedError, toExpressionError, type RequestExpressions } from './request.ts';
import { OutputBudget } from './output-budget.ts';

/** The tokens that reactor arguments name, in order of appearance. */
export interface TokenReferences {
  /** Each id once, with the path of the argument that names it first, such as `args.card.number`. */
  readonly tokens: ReadonlyMap<string, string>;
  /**
   * References to a whole token, `token: <id>`, interpreted as a plain id that includes the prefix, with the path. If a token with that id
   * exists too, the reference is ambiguous.
   */
  readonly ambiguous: ReadonlyMap<string, string>;
  /** Whether a reference has filters. Then an error may reveal something about the data. */
  readonly hasFilters: boolean;
}

/** The values of one token that `substituteTokens` needs: its data, and the token as an API answer shows it, with its data. */
export interface DetokenizedToken {
  /** Undefined when it may not be shown: the value of a reference is then null, whatever its filters. Likewise `token`. */
  readonly data: Json | undefined;
  readonly token: Json | undefined;
}

/**
 * Finds the token references of reactor arguments and checks their syntax, including filters, so that a faulty invocation is refused before
 * a token is opened. Object keys are never expressions.
 * @throws {ExpressionSyntaxError} with the path of the argument, such as `args.card.number`.
 */
export function findTokenReferences(args: Json): TokenReferences {
  const tokens = new Map<string, string>();
  const ambiguous = new Map<string, string>();
  let filters = 0;
  for (const reference of expressionsIn(args).references) {
    filters += reference.filters.length;
    if (filters > limits.referenceFilters)
      throw new ExpressionSyntaxError(
        `The filters must be at most ${limits.referenceFilters} characters long together.`,
        undefined,
        'args',
      );
    checkFilters(reference);
    if (!tokens.has(reference.id)) tokens.set(reference.id, reference.field);
    if (reference.isWhole && reference.subject !== undefined)
      ambiguous.set(reference.subject, reference.field);
  }
  return { tokens, ambiguous, hasFilters: filters > 0 };
}

/**
 * Replaces every reference by the value of the token after its filters. A string that is exactly one `{{ … }}` becomes the value in its
 * JSON type; otherwise the values are concatenated with the text. `{{ '{{' }}` is the text `{{`. Inserted values are not evaluated again: data that contains `{{ … }}`
 * stays text.
 * @throws {ExpressionSyntaxError} with the path of the argument; {ExpressionEvaluationError} also when `lookup` finds no such token, or
 * the result would exceed `limits.substituted`. For an expression that cannot be evaluated it says only that, and its path is `args`
 * unless the expression is the only one with filters, or the caller is shown what the expressions read (`isShown`).
 */
export async function substituteTokens(
  expressions: RequestExpressions,
  args: Json,
  lookup: (id: string) => DetokenizedToken | undefined,
  { isShown = false } = {},
): Promise<Json> {
  const values: Json[] = [];
  const { references, hasExpressions } = expressionsIn(args);
  if (!hasExpressions) return args;
  // With several expressions, naming the one that failed would reveal more about hidden data than that one of them failed.
  const mayName = isShown || references.filter(({ filters }) => filters !== '').length === 1;
  const nameOf = (field: string): string => (mayName ? field : 'args');
  for (const reference of references) values.push(await resolve(expressions, reference, lookup, nameOf));
  let next = 0;
  const outputBudget = new OutputBudget(limits.substituted);
  const admit = (value: Json): Json => {
    if (outputBudget.admits(value)) return value;
    // The place where the sum exceeds the limit would reveal how long each value before it is.
    throw tooLarge();
  };
  const filled = mapStrings('args', args, (text) => {
    if (!text.includes('{{')) return text;
    const parts = scanArgument(text).map((part) =>
      typeof part === 'string' ? part : admit(values[next++] ?? null),
    );
    const [only] = parts;
    return parts.length === 1 && only !== undefined ? only : parts.map(outputText).join('');
  });
  if (Buffer.byteLength(JSON.stringify(filled)) > limits.substituted) throw tooLarge();
  return filled;
}

function tooLarge(): ExpressionEvaluationError {
  return new ExpressionEvaluationError(
    'The detokenized arguments are too large: they must be at most 1 MiB as JSON.',
    'args',
  );
}

interface PlacedReference extends TokenReference {
  readonly field: string;
}

/** `hasExpressions` is true also when the only expressions are quoted braces. */
function expressionsIn(args: Json): {
  readonly references: readonly PlacedReference[];
  readonly hasExpressions: boolean;
} {
  const references: PlacedReference[] = [];
  let count = 0;
  mapStrings('args', args, (text, path) => {
    if (!text.includes('{{')) return text;
    const field = fieldPath('args', path);
    for (const part of scanArgument(text)) {
      if (typeof part !== 'string') references.push({ ...part, field });
      // The text `{{` comes only from quoted braces.
      if (typeof part !== 'string' || part === '{{') count += 1;
    }
    if (count > limits.references) throw tooManyReferences();
    return text;
  });
  return { references, hasExpressions: count > 0 };
}

async function resolve(
  expressions: RequestExpressions,
  reference: PlacedReference,
  lookup: (id: string) => DetokenizedToken | undefined,
  nameOf: (field: string) => string,
): Promise<Json> {
  const found = lookup(reference.id);
  if (found === undefined) throw missingToken(reference.id, reference.field);
  const data = reference.isWhole ? found.token : found.data;
  if (data === undefined) return null;
  if (reference.filters === '') return data;
  checkFilters(reference);
  try {
    const [value = null] = await expressions.evaluate([sourceOf(reference)], { data });
    return value;
  } catch (error) {
    const [first] = error instanceof JobFailedError ? error.failures : [];
    if (first === undefined) throw error;
    if (first.kind === 'syntax') throw toExpressionError(first, reference.field);
    // The caller may not see the data, and the reason of the failure would reveal something about it.
    throw new ExpressionEvaluationError('An expression gives no value.', nameOf(reference.field));
  }
}

/** @param id as in the arguments: the message shows it to the author of the arguments */
export function missingToken(id: string, field: string): ExpressionEvaluationError {
  return new ExpressionEvaluationError(`It names a token that does not exist: ${id}`, field);
}

/** The filters of a reference, as an expression over `data`. */
function sourceOf({ filters }: TokenReference): string {
  return `{{ data | ${filters} }}`;
}

function checkFilters(reference: PlacedReference): void {
  const { filters, position, field } = reference;
  if (filters === '') return;
  try {
    const compiled = compileExpression(sourceOf(reference));
    // If Liquid and the scanner disagree about where the filters end, the rest must not become a template.
    if (compiled.kind === 'template' && compiled.value !== undefined) return;
  } catch (error) {
    if (!(error instanceof ExpressionSyntaxError)) throw error;
    throw new ExpressionSyntaxError(error.message, error.position, field);
  }
  throw new ExpressionSyntaxError('The filters cannot be parsed.', position, field);
}
