import { compileFunction } from 'node:vm';
import { DomainError } from '@token-vault/contracts';

export type CodeCheck =
  | { readonly ok: true }
  | {
      readonly ok: false;
      readonly message: string;
      /** Both counted from 1. */
      readonly line?: number | undefined;
      readonly column?: number | undefined;
    };

/** Compiles a reactor's code, in the sandbox where there is one. @throws UnavailableError when it cannot be done now. */
export type CompileCode = (code: string, tenantId: string) => Promise<CodeCheck>;

const fileName = 'reactor.js';

/** V8 writes `reactor.js:<line>`, the line itself and a caret under the column at the head of the stack. */
function placeOf(error: Error): { line?: number; column?: number } {
  const [head = '', , caret = ''] = (error.stack ?? '').split('\n');
  const line = new RegExp(`^${fileName}:(\\d+)$`).exec(head)?.[1];
  if (line === undefined) return {};
  const column = caret.indexOf('^') + 1;
  return { line: Number(line), ...(column > 0 ? { column } : {}) };
}

/**
 * Parses the code as the body of a CommonJS function and never runs it: finds what is not JavaScript, not whether a function
 * is exported. Parsing is bounded by the limit on code; nesting too deep for the parser is an error like any other.
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

/** 422 naming line and message (rules.md §10). */
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
