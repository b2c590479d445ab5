import fc from 'fast-check';
import { expect, it } from 'vitest';
import { limits, outputsAndTags, outputsAndTagsAt } from '../src/index.ts';

const pieces = [
  '{{',
  '}}',
  '{%',
  '%}',
  '{',
  '}',
  '%',
  "'",
  '"',
  '\\',
  '-',
  ' ',
  '\n',
  '{{ a',
  '{%a',
  "'a'",
  '"}}"',
];
const texts = fc.array(fc.constantFrom(...pieces), { maxLength: 12 }).map((each) => each.join(''));

it('an output or a tag ends where the engine ends it, whatever the text is', () => {
  let count = 0;
  fc.assert(
    fc.property(texts, (text) => {
      const found = outputsAndTagsAt(text);
      let at = 0;
      for (const part of outputsAndTags(text) ?? []) {
        at = text.indexOf(part, at);
        // Of more openings than these some may end at one place.
        if (part.split('{').length <= 5) expect([at, found.get(at)]).toEqual([at, part]);
        at += part.length;
        if (part.length > 6) count += 1;
      }
    }),
    { numRuns: 3000 },
  );
  expect(count).toBeGreaterThan(50);
});

it('outputs and tags that begin within another are found, too, except those of more than the shortest four with one end', () => {
  expect(new Set(outputsAndTagsAt(`{{ "{{ a }}" }}{%b%}`).values())).toEqual(
    new Set([`{{ "{{ a }}" }}`, '{{ a }}', '{%b%}']),
  );
  expect([...outputsAndTagsAt(`{{ 'a\\' }}' }}`).values()]).toEqual([`{{ 'a\\' }}' }}`]);
  expect(outputsAndTagsAt('{{ '.repeat(6) + '}}').size).toBe(4);
});

it('a text without an end, or longer than an expression may be, is none', () => {
  const long = `{{ ${' '.repeat(limits.sourceLength)}}}`;
  for (const text of ['{{ a', `{{ 'a }}`, '{% a }}', long]) {
    expect(outputsAndTagsAt(text).size).toBe(0);
    expect(outputsAndTags(text)).toBeUndefined();
  }
});
