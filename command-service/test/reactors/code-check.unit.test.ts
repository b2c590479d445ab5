import { describe, expect, it } from 'vitest';
import { parseCode, requireCompiled } from '../../src/reactors/code-check.ts';

declare global {
  var ranReactorCode: boolean | undefined;
}

describe('reactor code', () => {
  it.each([
    'module.exports = async function (req) { return { raw: await req.args }; }',
    'module.exports = (req) => ({ raw: {} });',
    'const { a } = require("x"); exports.b = a; return;',
  ])('is accepted: %s', (code) => expect(parseCode(code)).toEqual({ ok: true }));

  it('is never run', () => {
    expect(parseCode('globalThis.ranReactorCode = true;')).toEqual({ ok: true });
    expect(globalThis.ranReactorCode).toBeUndefined();
  });

  it.each<[string, string, number]>([
    ['a missing brace', 'module.exports = async function (req) {\n  return {};\n', 3],
    ['a wrong token', 'const a = 1;\nconst b = ;\n', 2],
    ['a closed function around it', 'return 1; });\n(function () {', 1],
    ['await outside of an async function', 'const a = 1;\n\nawait a;', 3],
  ])('with %s is refused by its line', (_what, code, line) => {
    expect(parseCode(code)).toMatchObject({ ok: false, line, message: expect.any(String) as unknown });
  });

  it('too deep for the parser is refused', () => {
    expect(parseCode('('.repeat(50_000))).toMatchObject({ ok: false });
  });

  it('is refused naming line, column and message', () => {
    const check = parseCode('const a = 1;\nconst b = ;\n');
    expect(() => requireCompiled(check)).toThrow(
      expect.objectContaining({
        code: 'code_invalid',
        status: 422,
        message: `The code does not compile: line 2, column 11: Unexpected token ';'`,
      }) as Error,
    );
  });

  it('is refused without a line when the error has none', () => {
    expect(() => requireCompiled({ ok: false, message: 'no function is exported' })).toThrow(
      'The code does not compile: no function is exported',
    );
  });
});
