import { createInlineWorkers, renderMask, RequestExpressions } from '@token-vault/expressions';
import { describe, expect, it } from 'vitest';
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
  // The text of the caller comes first and would take the written expression into a text of its own.
  expect(written.inField('id', `{{ '${mask}`)).toBe(`{{ '{{' }} '${mask}`);
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

it.each([
  `{{ data | append: '}}' }}`,
  `{{ data | append: "it's }}" }}`,
  `{{ data | append: '{{ "' | append: '"' }}`,
  `{% assign close = '}}' %}{{- data -}}{{ close }}`,
  `{%- if data -%}a{%- endif -%}`,
  `{% raw %}{% x {% endraw %}`,
  `{% comment %}{{ data }}{% endcomment %}b`,
  `{% # "a note" %}b`,
  `{% liquid\n assign a = data\n echo a %}`,
])('the whole expression %s is one that the author wrote', (expression) => {
  expect(of(`mask: \`${expression}\``).inField('mask', expression)).toBe(expression);
});

/** What a mask of this text shows of data, or its error. */
const shown = async (text: string) => {
  try {
    const data = '4938271650381111';
    return await renderMask(
      new RequestExpressions({ tenantId: 'tenant', applicationId: 'a' }, createInlineWorkers()),
      text,
      data,
    );
  } catch (error) {
    return String(error);
  }
};

const withEnd = `{{ data | reveal_last: 4 | prepend: '{{' | append: '}}' }}`;
const object = `const token = { data: args.secret, metadata: { note: { text: args.note }}};`;
const start = (source: string) => source.slice(source.indexOf('{{'), source.indexOf('}}') + 2);
const comment = `// no "{{"\n${object}`;
const guard = `if (args.note.includes("{{")) throw new Error('no');\n${object}`;
// The engine reads `{% endraw %}` in this text when `{% raw %}` stands before it, and then an output that is open at its end.
const rawInText = `{{ "{% endraw %}{{ ' " | append: "x" }}`;

describe('a text of the caller that begins as an expression of the author', () => {
  it.each([
    ['goes on behind its }}', withEnd, withEnd.replace(/ }}$/, ` | replace: '}}', data }}`)],
    ['goes on behind a comment with an opening', comment, `${start(comment)}" | append: data }}`],
    ['goes on behind a test for an opening', guard, `${start(guard)}" | append: data }}`],
    [
      'reads a raw text of it',
      `{% raw %}{% endraw %}\n${rawInText}`,
      `{% raw %}${rawInText}' | append: data }}`,
    ],
  ])('shows no data: it %s', async (_what, source, text) => {
    const written = of(source);
    expect(await shown(text)).toContain('4938');
    expect(await shown(written.inField('mask', text))).not.toContain('4938');
  });

  it.each([
    ['a raw text', '{% raw %}', '{% endraw %}'],
    ['a comment', '{% comment %}', '{% endcomment %}'],
  ])('shows no data in %s of the author', async (_what, begin, end) => {
    const written = of(`return { mask: '${begin}' + args.note + '${end}${mask}' };`);
    for (const note of ['{{ data }}', `${end}{{ data }}${begin}`, `{{ '`, '{% endraw'])
      expect(await shown(written.inField('mask', `${begin}${note}${end}${mask}`))).not.toContain('4938');
  });
});

it.each(['{{', '{%', '{{%', '{{ %}', '}}{%', '{%{{{{"', '{{ }}{{\'{{"', '{{ "}}'])(
  'a text of a million characters of %s is read once',
  (part) => {
    const text = part.repeat(1_000_000 / part.length);
    expect(of(text, text).inField('id', text)).not.toBe('');
  },
);
