import { compileFunction } from 'node:vm';
import type IsolatedVm from 'isolated-vm';
import type { CompileProblem } from '../outcome.ts';

const prefix = '(function (module, exports, require) {';

/**
 * Parses the code as the body of a CommonJS function, without running it. Because it is parsed as a body, and not as
 * text between braces, `}); … (function () {` cannot close the wrapper.
 */
export function findSyntaxError(isolate: IsolatedVm.Isolate, code: string): CompileProblem | undefined {
  try {
    compileFunction(code, ['module', 'exports', 'require'], { filename: 'reactor.js' });
    return undefined;
  } catch (error) {
    return locate(isolate, code) ?? describe(error);
  }
}

/** The isolate's compiler puts `[file:line:column]` into the message. */
function locate(isolate: IsolatedVm.Isolate, code: string): CompileProblem | undefined {
  try {
    isolate
      .compileScriptSync(`${prefix}${code}\n})`, { filename: 'reactor.js', columnOffset: -prefix.length })
      .release();
    return undefined;
  } catch (error) {
    const match = /^(.*) \[reactor\.js:(\d+):(\d+)\]$/s.exec(error instanceof Error ? error.message : '');
    if (match === null) return undefined;
    const [, message = '', line, column] = match;
    return within(code, {
      message: `SyntaxError: ${message}`.slice(0, 2_000),
      line: Number(line),
      column: Number(column),
    });
  }
}

/** An error after the end of the code is at the end of the wrapper: a bracket in the code was not closed. */
function within(
  code: string,
  problem: CompileProblem & { readonly line: number; readonly column: number },
): CompileProblem {
  const lines = code.split(/\r\n|[\n\r\u2028\u2029]/);
  if (problem.line <= lines.length) return problem;
  const column = (lines.at(-1) ?? '').length + 1;
  return { message: 'SyntaxError: Unexpected end of input', line: lines.length, column };
}

/** The line of the code's export, for code whose export is no function. Otherwise its first line. */
export function lineOfExport(code: string): number {
  const index = Math.max(0, code.search(/\bexports\b/));
  return code.slice(0, index).split('\n').length;
}

function describe(error: unknown): CompileProblem {
  if (!(error instanceof Error)) return { message: 'SyntaxError' };
  const line = Number(/^reactor\.js:(\d+)/.exec(error.stack ?? '')?.[1]);
  return { message: `${error.name}: ${error.message}`.slice(0, 2_000), ...(line > 0 ? { line } : {}) };
}
