import { expect, it } from 'vitest';
import { WrittenExpressions } from '../src/index.ts';

const mask = '{{ data | reveal_last: 4 }}';
const of = (...texts: string[]) => new WrittenExpressions(texts);

it('expressions that the source or the configuration has stay expressions; all others are text', () => {
  const written = of(`return { mask: '${mask}', id: 'a' }`, '{% if data %}x{% endif %}');
  expect(written.areInTemplates).toBe(true);
  expect(written.inField('id', `ref-${mask}`)).toBe(`ref-${mask}`);
  expect(written.inField('mask', '{% if data %}x{% endif %}')).toBe('{% if data %}x{% endif %}');
  expect(written.inField('id', `{{ data }}-${mask}`)).toBe(`{{ '{{' }} data }}-${mask}`);
  expect(written.inField('id', '{% echo data %}{{')).toBe(`{{ '{%' }} echo data %}{{ '{{' }}`);
  // The text of the caller comes first and would take the beginning of the written expression in.
  expect(written.inField('id', `{{ '${mask}`)).toBe(`{{ '{{' }} '{{ '{{' }} data | reveal_last: 4 }}`);
});

it('code without expressions may copy the descriptions of tokens that it was shown, each to its own field', () => {
  const written = of('return 1');
  expect(written.areInTemplates).toBe(false);
  written.noteShown('listTokens', {
    data: [{ id: mask, data: { mask: '{{ data }}' }, mask: { last: mask } }],
  });
  expect(written.inField('mask', mask)).toBe(mask);
  expect(written.inField('mask', `x${mask}`)).not.toBe(`x${mask}`);
  expect(written.inField('mask', '{{ data }}')).not.toBe('{{ data }}');
  expect(written.inField('search_indexes', mask)).not.toBe(mask);
  expect(written.inField('id', mask)).not.toBe(mask);
});

it('nothing else in an answer is the description of a token', () => {
  const written = of('return 1');
  written.noteShown('getToken', { metadata: { mask }, search_indexes: ['a'] });
  for (const operation of ['react', 'detokenize', 'tokenize', 'createToken'] as const)
    written.noteShown(operation, { mask, data: [{ mask }], raw: { mask } });
  expect(written.inField('mask', mask)).not.toBe(mask);
});

it.each([
  ['with arguments of a filter', `'{{ data | replace: "-", "" }}'`, '{{ data | replace: "-", "" }}'],
  ['with escaped quotes', `"{{ data | append: \\"x\\" }}"`, '{{ data | append: "x" }}'],
  [
    'in a configuration of JSON',
    JSON.stringify({ mask: '{{ data | append: "x" }}' }),
    '{{ data | append: "x" }}',
  ],
  ['over two lines that end with CRLF', '`{{ data\r\n | size }}`', '{{ data\n | size }}'],
  ['behind a comment with an opening', `// has {{ braces\n'${mask}'`, mask],
])('an expression %s is one that the author wrote, and frees no other', (_what, source, expression) => {
  expect(of(source).inField('mask', expression)).toBe(expression);
  expect(of(source).inField('id', '{{ data }}')).toBe(`{{ '{{' }} data }}`);
});

it.each(['{{', '{%', '{{%', '{{ %}', '}}{%'])('a text of a million characters of %s is read once', (part) => {
  const text = part.repeat(1_000_000 / part.length);
  expect(of(text, text).inField('id', text)).not.toBe('');
});
