import type { ApiError } from '../../api/client.ts';
import type { CodeFault } from '../../ui/code-editor.tsx';

/** The place that a 422 names: `The code does not compile: line 2, column 7: Unexpected token`. */
export function faultOf(error: ApiError | undefined): CodeFault | undefined {
  if (error?.status !== 422) return undefined;
  const place = /line (\d+)(?:, column (\d+))?/.exec(error.message);
  return { line: Number(place?.[1] ?? 1), column: Number(place?.[2] ?? 1), message: error.message };
}
