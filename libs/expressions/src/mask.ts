import { compileExpression } from './compile.ts';
import { evaluateIn, startEvaluation } from './evaluate.ts';
import {
  ExpressionEvaluationError,
  ExpressionSyntaxError,
  nameField,
  type SourcePosition,
} from './errors.ts';
import { setOwn, type Json } from './json.ts';
import { limits } from './limits.ts';
import { atKey, fieldPath, type Key } from './field-path.ts';
import { Room } from './room.ts';
import type { Evaluation } from './engine.ts';

/** One thing wrong with a mask. `field` is a path such as `mask.number` or `mask.names[0]`. */
export interface MaskIssue {
  readonly field: string;
  readonly message: string;
  readonly position?: SourcePosition;
}

/**
 * Everything wrong with the expressions of a mask, to be told when the token is written. Strings are expressions; other
 * leaves (numbers, booleans, null) are literals and always right.
 */
export function validateMask(mask: Json, field = 'mask'): readonly MaskIssue[] {
  const issues: MaskIssue[] = [];
  let expressions = 0;
  const visit = (node: Json, path: string, depth: number): void => {
    if (depth > limits.depth)
      issues.push({ field, message: `A mask must be at most ${limits.depth} levels deep.` });
    else if (typeof node === 'string') {
      expressions += 1;
      const issue = syntaxIssue(node, path);
      if (issue) issues.push(issue);
    } else if (Array.isArray(node)) node.forEach((item, index) => visit(item, atKey(path, index), depth + 1));
    else if (node !== null && typeof node === 'object')
      for (const [key, item] of Object.entries(node)) visit(item, atKey(path, key), depth + 1);
  };
  visit(mask, field, 0);
  if (expressions > limits.maskExpressions)
    issues.push({ field, message: `A mask must have at most ${limits.maskExpressions} expressions.` });
  return issues;
}

function syntaxIssue(source: string, field: string): MaskIssue | undefined {
  try {
    compileExpression(source);
    return undefined;
  } catch (error) {
    if (!(error instanceof ExpressionSyntaxError)) throw error;
    const { message, position } = error;
    return position ? { field, message, position } : { field, message };
  }
}

/**
 * What a caller sees of `data` through a mask of any shape: each string in it is evaluated, other leaves are literals, and
 * what the mask leaves out is redacted. All expressions together have the time and memory of one.
 * @throws {ExpressionEvaluationError} or {ExpressionSyntaxError}; `field` is the path in the mask.
 */
export function renderMask(mask: Json, data: Json): Json {
  const path: Key[] = [];
  try {
    return render(mask, { ...startEvaluation({ data }), room: new Room(limits.maskOutput) }, path);
  } catch (error) {
    // What was being rendered when it failed is what the path still holds.
    throw nameField(error, fieldPath('mask', path));
  }
}

interface MaskEvaluation extends Evaluation {
  readonly room: Room;
}

function render(mask: Json, evaluation: MaskEvaluation, path: Key[]): Json {
  if (typeof mask === 'string') {
    const shown = evaluateIn(compileExpression(mask), evaluation);
    if (evaluation.room.admits(shown)) return shown;
    throw new ExpressionEvaluationError('The mask shows too much.');
  }
  if (typeof mask !== 'object' || mask === null) return mask;
  if (path.length > limits.depth)
    throw new ExpressionSyntaxError(`A mask must be at most ${limits.depth} levels deep.`);
  const renderAt = (key: Key, item: Json): Json => {
    path.push(key);
    const shown = render(item, evaluation, path);
    path.pop();
    return shown;
  };
  if (Array.isArray(mask)) return mask.map((item, index) => renderAt(index, item));
  const shown: Record<string, Json> = {};
  for (const [key, item] of Object.entries(mask)) setOwn(shown, key, renderAt(key, item));
  return shown;
}
