import { describe, expect, it } from 'vitest';
import fc from 'fast-check';
import { limits, quoteExpressions, substituteTokens, type Json } from '../src/index.ts';
import { newRequest } from './support.ts';

/** The value that the receiver gets when every token has the data `secret`. */
const arrived = (value: Json): Promise<Json> =>
  substituteTokens(newRequest(), quoteExpressions(value), () => ({ data: 'secret', token: null }));

describe('data whose expressions are quoted', () => {
  it.each<Json>([
    '{{ a-token }}',
    { list: ['{{ a-token }} and {{ a-token | upcase }}', 1, null], '{{ name }}': true },
    'Dear {{ name }}',
    'not closed {{ a-token',
    "{{ '{{' }} a-token }}",
    '{{{{ a-token }}}}',
  ])('arrives as it was: %j', async (data) => {
    expect(await arrived(data)).toEqual(data);
  });

  it('arrives as it was, whatever the text is', async () => {
    const pieces = fc.constantFrom('{{', '}}', '{', '}', ' a-token ', "'", '"', '|', '\\', 'x', '\n');
    const text = fc.array(pieces, { maxLength: 12 }).map((each) => each.join(''));
    await fc.assert(
      fc.asyncProperty(text, async (data) => {
        expect(await arrived(data)).toBe(data);
      }),
    );
  });

  it('has at most as many braces as a value may have references, in all its strings together', async () => {
    const most = Array.from({ length: limits.references }, () => '{{');
    expect(await arrived(most)).toEqual(most);
    expect(() => quoteExpressions([...most, '{{'])).toThrow(`at most ${limits.references}`);
    await expect(arrived([...most.map(() => 'x'), "{{ '{{' }}"])).resolves.toHaveLength(1_001);
  });
});
