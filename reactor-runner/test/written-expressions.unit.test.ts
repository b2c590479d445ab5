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
  written.noteShown({
    items: [{ id: mask, data: { mask: '{{ data }}' }, mask: { last: mask } }],
    next: null,
  });
  expect(written.inField('mask', mask)).toBe(mask);
  expect(written.inField('mask', `x${mask}`)).not.toBe(`x${mask}`);
  expect(written.inField('mask', '{{ data }}')).not.toBe('{{ data }}');
  expect(written.inField('search_indexes', mask)).not.toBe(mask);
  expect(written.inField('id', mask)).not.toBe(mask);
});

it.each([
  ['`{{ data | slice: 0, ${n} }}`'],
  [`'{{ data | slice: 0, ' + n + ' }}'`],
  [`['{{', n, '}}'].join(' ')`],
  [`"{{ data | append: \\"x\\" }}"`],
  [`const opening = '{{'`],
])('code that builds expressions when it runs may write any: %s', (source) => {
  expect(of(source).inField('mask', '{{ data | slice: 0, 2 }}')).toBe('{{ data | slice: 0, 2 }}');
});
