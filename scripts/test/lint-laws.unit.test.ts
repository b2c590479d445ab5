import { ESLint, Linter } from 'eslint';
import path from 'node:path';
import tseslint from 'typescript-eslint';
import { describe, expect, it } from 'vitest';

const repository = path.resolve(import.meta.dirname, '../..');
/** The laws that need no types. */
const laws = [
  'max-lines',
  'max-params',
  'max-lines-per-function',
  'complexity',
  'no-restricted-syntax',
  '@typescript-eslint/no-explicit-any',
];
const config = new ESLint({ cwd: repository });
const linter = new Linter({ cwd: repository });

/** The laws that this code breaks as a file of the repository. */
async function brokenBy(code: string, file: string): Promise<string[]> {
  const { rules } = (await config.calculateConfigForFile(path.join(repository, file))) as Linter.Config;
  const found = linter.verify(
    code,
    {
      files: ['**/*.ts'],
      languageOptions: { parser: tseslint.parser },
      plugins: { '@typescript-eslint': tseslint.plugin },
      rules: Object.fromEntries(laws.map((name) => [name, rules?.[name] ?? 'off'])),
    },
    file,
  );
  return found.map(({ ruleId, message }) => ruleId ?? message);
}

const statements = (count: number) => 'work();\n'.repeat(count);
const lines = (count: number) => `function a() {\n${statements(count - 2)}}\n`;
const branches = (count: number) => `function a(x: number) {\n${'if (x) x--;\n'.repeat(count)}}\n`;
const parameters = (count: number) =>
  `function a(${Array.from({ length: count }, (_, index) => `p${index}: 1`).join(', ')}) {}\n`;

const source = 'command-service/src/a.ts';
const restricted = ['no-restricted-syntax'];
type Judged = readonly [what: string, code: string, broken: readonly string[], file?: string];

const judged: readonly Judged[] = [
  ['250 lines', statements(250), []],
  ['251 lines', statements(251), ['max-lines']],
  ['250 lines, others empty or comments', `${statements(250)}\n// Why.\n`, []],
  ['501 lines of a test', statements(501), ['max-lines'], 'libs/crypto/test/a.ts'],
  ['500 lines of a test', statements(500), [], 'libs/crypto/test/a.ts'],
  ['a function of 55 lines', lines(55), []],
  ['a function of 56 lines', lines(56), ['max-lines-per-function']],
  ['complexity 14', branches(13), []],
  ['complexity 15', branches(14), ['complexity']],
  ['four parameters', parameters(4), []],
  ['five parameters', parameters(5), ['max-params']],
  ['any', 'const a: any = 1;', ['@typescript-eslint/no-explicit-any']],
  ['a cast', 'const a = b as B;', []],
  ['a cast to never in a test', 'f(b as never);', [], 'libs/crypto/test/a.ts'],
  ['names of a definition', 'query(`select ${token.id} from ${token}`);', []],
  ...[source, 'query-service/src/a.ts', 'libs/crypto/src/a.ts'].flatMap((file): Judged[] => [
    [`a cast by way of unknown in ${file}`, 'const a = b as unknown as B;', restricted, file],
    [`a cast to never in ${file}`, 'f(b as never);', restricted, file],
    [`a cast to a sealed value in ${file}`, 'const a = b as SealedValue;', restricted, file],
    [`a read model in a text in ${file}`, `query('select id from rm_tokens.token');`, restricted, file],
    [`a read model in a template in ${file}`, 'query(`select ${a} from rm_tokens.token`);', restricted, file],
  ]),
  ['a data key that is not wiped', 'await keyRing.createDataKey(place);', restricted],
  ['a data key in another service', 'await keyRing.createDataKey(place);', restricted, 'proxy/src/a.ts'],
  ['a data key in its library', 'await keyRing.createDataKey(place);', [], 'libs/crypto/src/a.ts'],
];

// `npm run lint` checks the files of the repository.
describe('the laws of lint', () => {
  const cases = judged.map(([what, code, broken, file = source]) => ({ what, code, broken, file }));
  it.each(cases)('judge $what', async ({ code, broken, file }) => {
    expect(await brokenBy(code, file)).toEqual(broken);
  });
});
