import { compileFunction } from 'node:vm';
import { DomainError } from '@token-vault/contracts';

export type CodeCheck =
  | { readonly ok: true }
  | {
      readonly ok: false;
      readonly message: string;
      /** Line and column count from 1. */
      readonly line?: number | undefined;
      readonly column?: number | undefined;
    };

/**
 * Compiles a reactor's code, in the sandbox where there is one. @throws UnavailableError when the check cannot run
 * now.
 */
export type CompileCode = (code: string, tenantId: string) => Promise<CodeCheck>;

const fileName = 'reactor.js';

/** The head of V8's stack holds `reactor.js:<line>`, then the line of code, then a caret under the column. */
function placeOf(error: Error): { line?: number; column?: number } {
  const [head = '', , caret = ''] = (error.stack ?? '').split('\n');
  const line = new RegExp(`^${fileName}:(\\d+)$`).exec(head)?.[1];
  if (line === undefined) return {};
  const column = caret.indexOf('^') + 1;
  return { line: Number(line), ...(column > 0 ? { column } : {}) };
}

/**
 * Parses the code as the body of a CommonJS function and never runs it. It finds text that is not JavaScript, but not
 * a missing export. The limit on code bounds the time of parsing. Nesting that is too deep for the parser is an
 * ordinary error.
 */
export function parseCode(code: string): CodeCheck {
  try {
    compileFunction(code, ['exports', 'require', 'module'], { filename: fileName });
    return { ok: true };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    return { ok: false, message: error.message, ...placeOf(error) };
  }
}

export const parsesOnly: CompileCode = (code) => Promise.resolve(parseCode(code));

/** Throws a 422 that names line and message (rules.md §10). */
export function requireCompiled(check: CodeCheck): void {
  if (check.ok) return;
  const { message, line, column } = check;
  const place = [
    ...(line === undefined ? [] : [`line ${line}`]),
    ...(column === undefined ? [] : [`column ${column}`]),
  ].join(', ');
  throw new DomainError(
    'code_invalid',
    `The code does not compile: ${place === '' ? '' : `${place}: `}${message}`,
  );
}
