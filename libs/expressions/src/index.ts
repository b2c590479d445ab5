export { compileExpression, containsExpression, type Compiled } from './compile.ts';
export { evaluate, type Bindings, type EvaluationOptions } from './evaluate.ts';
export { ExpressionEvaluationError, ExpressionSyntaxError, type SourcePosition } from './errors.ts';
export { renderMask, validateMask, type MaskIssue } from './mask.ts';
export { evaluateFingerprint, evaluateId, evaluateSearchIndexes } from './token-values.ts';
export {
  findTokenReferences,
  substituteTokens,
  type DetokenizedToken,
  type TokenReferences,
} from './detokenize.ts';
export { isTokenId } from './token-id.ts';
export { limits } from './limits.ts';
export type { RandomInt } from './filters/index.ts';
export type { Json, JsonObject } from './json.ts';
export { readPathsOf, type ReadPath } from './read-paths.ts';
