import { describe, expect, it } from 'vitest';
import fc from 'fast-check';
import { findTokenReferences, GivenText, substituteTokens, type Json } from '../src/index.ts';
import { newRequest } from './support.ts';

const plainCode = 'module.exports = async ({ args, svc }) => svc.reactors.react(args.id, { args });';
const writingCode = 'module.exports = async ({ args, svc }) => svc.detokenize(`{{ ${args.id} }}`);';

/** The ids of the tokens whose data an operation would put into what the code passes on. */
function namedIn(passed: Json, code: string, ...given: readonly Json[]): string[] {
  const texts = new GivenText([code]);
  for (const each of given) texts.note(each);
  return [...findTokenReferences(texts.quoteIn(passed)).tokens.keys()];
}

/** What the other code is given, when every token has the data `secret`. */
function arrived(passed: Json, code: string, ...given: readonly Json[]): Promise<Json> {
  const texts = new GivenText([code]);
  for (const each of given) texts.note(each);
  return substituteTokens(newRequest(), texts.quoteIn(passed), () => ({ data: 'secret', token: null }));
}

describe('data that code passes on', () => {
  it.each<Json>([
    '{{ a-token }}',
    { list: ['{{ a-token }} and {{ a-token | upcase }}', 1, null] },
    'Dear {{ name }}',
    'not closed {{ a-token',
    "{{ '{{' }} a-token }}",
    '{{{{ a-token }}}}',
  ])('is no expression, and arrives as it was: %j', async (data) => {
    expect(await arrived(data, plainCode)).toEqual(data);
    expect(await arrived(data, writingCode, { deep: [data] })).toEqual(data);
  });

  it('arrives as it was in any text, from code that writes expressions too', async () => {
    const pieces = fc.constantFrom('{{', '}}', '{', '}', ' a-token ', "'", '"', '|', '\\', 'x', '\n');
    const text = fc.array(pieces, { maxLength: 12 }).map((each) => each.join(''));
    await fc.assert(
      fc.asyncProperty(text, async (data) => {
        expect(await arrived(data, plainCode)).toBe(data);
        expect(await arrived(data, writingCode, data)).toBe(data);
      }),
    );
  });

  it('is no expression beside one that the code wrote', () => {
    const passed = { own: '{{ mine }}', mixed: 'for {{ a-token }}: {{ mine }}' };
    expect(namedIn(passed, writingCode, 'x {{ a-token }}')).toEqual(['mine']);
  });

  it('is no expression when the code cuts it out of a longer one', () => {
    expect(namedIn('{{ a-token }}', writingCode, '{{ b {{ a-token }}')).toEqual([]);
  });

  it('is no expression when the code joins it with its end', () => {
    expect(namedIn('{{ a-token }} {{ mine }}', writingCode, ['{{ a-token', ' }}'])).toEqual(['mine']);
  });

  it('is no expression when it was the name of a field', () => {
    expect(namedIn('{{ a-token }}', writingCode, { '{{ a-token }}': 1 })).toEqual([]);
  });
});

describe('an expression that code writes', () => {
  it('names a token whose id the code was given', () => {
    expect(namedIn('{{ a-token }}', writingCode, { id: 'a-token' })).toEqual(['a-token']);
  });

  it('may stand in its configuration', () => {
    const texts = new GivenText([plainCode, 'card: {{ a-token }}']);
    expect(texts.quoteIn('{{ a-token }}')).toBe('{{ a-token }}');
  });

  it('is not evaluated after more data with expressions than is compared', () => {
    const many = Array.from({ length: 1_001 }, (_, index) => `{{ t${index} }}`);
    expect(namedIn('{{ mine }}', writingCode, many)).toEqual([]);
    expect(namedIn('{{ mine }}', writingCode, '{'.repeat(1_000_000))).toEqual([]);
  });
});
