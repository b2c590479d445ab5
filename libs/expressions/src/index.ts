export { containsExpression } from './compile.ts';
export type { Bindings } from './evaluation.ts';
export { ExpressionEvaluationError, ExpressionSyntaxError, type SourcePosition } from './errors.ts';
export { checkMask, isSimple, mayRead, renderMask, type MaskIssue } from './mask.ts';
export {
  evaluateFingerprint,
  evaluateId,
  evaluateSearchIndexes,
  missingFingerprint,
} from './token-values.ts';
export {
  findTokenReferences,
  missingToken,
  substituteTokens,
  type DetokenizedToken,
  type TokenReferences,
} from './detokenize.ts';
export {
  createExpressions,
  RequestExpressions,
  type Allowance,
  type Expressions,
  type ExpressionWorkers,
  type WorkerAnswer,
} from './request.ts';
export { createInlineWorkers } from './workers/inline.ts';
export { createExpressionWorkers, type ExpressionWorkerOptions } from './workers/pool.ts';
export type { Job, JobFailure, JobOutcome } from './job.ts';
export { outputText } from './output-text.ts';
export { cutAtReferences } from './reference-scanner.ts';
export { outputsAndTags, outputsAndTagsAt } from './outputs-and-tags.ts';
export { quoteExpressions } from './quote-expressions.ts';
export { isTokenId } from './token-id.ts';
export { limits } from './limits.ts';
export type { Json, JsonObject } from './json.ts';
export { readPathsOf, type ReadPath } from './read-paths.ts';
