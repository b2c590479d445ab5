import { describe, expect, it } from 'vitest';
import { findTokenReferences, substituteTokens, type DetokenizedToken, type Json } from '../src/index.ts';
import { newRequest } from './support.ts';

const uuid = '45c124e7-6ab2-4899-b4d9-1388b0ba9d04';
const oddId = `a.b-c@d:e$!~*'"(),; f`;
const card = { number: '4242424242424242', month: 10 };
const tokens: Readonly<Record<string, DetokenizedToken>> = {
  [uuid]: { data: card, token: { id: uuid, type: 'card', data: card } },
  [oddId]: { data: 'odd', token: { id: oddId, data: 'odd' } },
  abc: { data: 5, token: { id: 'abc', data: 5 } },
  evil: { data: '{{ abc }}{{ data }}', token: { data: '{{ abc }}' } },
};
const lookup = (id: string) => (Object.hasOwn(tokens, id) ? tokens[id] : undefined);
const substitute = (args: Json) => substituteTokens(newRequest(), args, lookup);

describe('a detokenization expression', () => {
  it.each<[string, Json]>([
    [`{{ ${uuid} }}`, card],
    [`{{${uuid}}}`, card],
    ['{{ abc }}', 5],
    [`{{ ${uuid} | json: '$.number' }}`, '4242424242424242'],
    [`{{ ${uuid} | json: '$.month' }}`, 10],
    [`{{ token: ${uuid} | json: '$.data.number' }}`, '4242424242424242'],
    [`{{ token:${uuid} | json: "$.type" }}`, 'card'],
    [`{{ token: abc }}`, { id: 'abc', data: 5 }],
    [`{{ ${oddId} }}`, 'odd'],
    [`{{ ${oddId}|upcase}}`, 'ODD'],
    [`{{ token: ${oddId} | json: '$.data' }}`, 'odd'],
    ["{{ abc | append: '}}' }}", '5}}'],
    ['{{ abc | append: \'|\' | append: "{{ evil }}" }}', '5|{{ evil }}'],
    [`{{ abc | append: "a\\" }}{{ evil }}{% if true %}{{ '" }}`, `5a" }}{{ evil }}{% if true %}{{ '`],
    [' {{ abc }}', ' 5'],
    ['{{ abc }}{{ abc | plus: 1 }}', '56'],
    [`card: {{ ${uuid} }}.`, 'card: {"number":"4242424242424242","month":10}.'],
    ['{{ evil }}', '{{ abc }}{{ data }}'],
    ['<{{ evil }}>', '<{{ abc }}{{ data }}>'],
    ['{% if true %}kept{% endif %} { } }}', '{% if true %}kept{% endif %} { } }}'],
    ['plain', 'plain'],
    ["{{ '{{' }}", '{{'],
    ['Dear {{ "{{" }} name }}, {{ abc }}', 'Dear {{ name }}, 5'],
    [`{{'{{'}} '{{ '{{' }}' }}`, `{{ '{{' }}`],
  ])('%s becomes %j', async (text, expected) => {
    expect(await substitute({ value: text })).toEqual({ value: expected });
  });

  it('may be anywhere except in a key', async () => {
    const args = {
      '{{ abc }}': 1,
      list: ['{{ abc }}', [true, null, 1.5, '{{ abc }}!']],
      card: { n: `{{ ${uuid} | json: '$.month' }}` },
    };
    expect(await substitute(args)).toEqual({
      '{{ abc }}': 1,
      list: [5, [true, null, 1.5, '5!']],
      card: { n: 10 },
    });
  });

  it('cannot read another token than the one it names', async () => {
    expect(await substitute(`{{ abc | append: evil | append: token }}`)).toBe('5');
  });

  it.each([
    '{{ abc',
    "{{ abc | append: 'x }}",
    '{{ }}',
    '{{ ab }}',
    '{{ a/b/c }}',
    '{{ {{ abc }} }}',
    '{{ abc | }}',
    '{{ abc | nope }}',
    '{{ abc | reveal_last }}',
    'text {{ token: }}',
  ])('%j is refused by its path before anything is opened', (text) => {
    expect(() => findTokenReferences({ card: [{ number: text }] })).toThrow(
      expect.objectContaining({ name: 'ExpressionSyntaxError', field: 'args.card[0].number' }) as Error,
    );
  });

  it('of an unknown token, or over unsuitable data, is refused by its path, and the id is named', async () => {
    const fails = (text: string) => expect(substitute({ a: { b: text } })).rejects;
    await fails('{{ unknown }}').toMatchObject({
      name: 'ExpressionEvaluationError',
      field: 'args.a.b',
      message: 'It names a token that does not exist: unknown',
    });
    await fails('{{ evil | to_number }}').toMatchObject({
      field: 'args.a.b',
      message: 'An expression gives no value.',
    });
  });

  it('has its position in a long text', () => {
    expect(() => findTokenReferences('{{ abc }}\n\n  {{ abc }} {{ x }}')).toThrow(
      expect.objectContaining({ field: 'args', position: { line: 3, column: 13 } }) as Error,
    );
  });
});

describe('the references of arguments', () => {
  it('are each named once, with the argument that names them first', () => {
    const args = {
      a: '{{ abc }} {{ abc | last4 }}',
      b: [`{{ token: ${uuid} }}`, `{{ ${oddId} }}`],
      '{{ key }}': '{{ abc }}',
      n: 1,
    };
    expect([...findTokenReferences(args).tokens]).toEqual([
      ['abc', 'args.a'],
      [uuid, 'args.b[0]'],
      [oddId, 'args.b[1]'],
    ]);
    expect(findTokenReferences({}).tokens.size).toBe(0);
  });

  it('to a whole token name the other id that they could mean', () => {
    const args = ['{{ token: abc }}', '{{token:abc | json: "$.id"}}', '{{ abc }}', '{{ tokens:abc }}'];
    const { tokens: named, ambiguous } = findTokenReferences(args);
    expect([...named.keys()]).toEqual(['abc', 'tokens:abc']);
    expect([...ambiguous]).toEqual([
      ['token: abc', 'args[0]'],
      ['token:abc', 'args[1]'],
    ]);
  });
});

describe('hostile arguments', () => {
  it('keep a property named __proto__ as a property', async () => {
    const args = JSON.parse('{"__proto__": {"x": "{{ abc }}"}}') as Json;
    expect(JSON.stringify(await substitute(args))).toBe('{"__proto__":{"x":5}}');
    expect(({} as { x?: unknown }).x).toBeUndefined();
  });

  it('are refused when too deep', async () => {
    let deep: Json = '{{ abc }}';
    for (let level = 0; level < 50_000; level += 1) deep = { a: deep };
    expect(() => findTokenReferences(deep)).toThrow('levels deep');
    await expect(substitute(deep)).rejects.toThrow('levels deep');
  });

  it.each<[string, Json]>([
    ['one string', '{{ big }}'.repeat(1_000)],
    ['many strings', Array.from({ length: 1_000 }, () => '{{ big }}')],
    ['whole structures', Array.from({ length: 1_000 }, () => '{{ token: big }}')],
    ['arguments that are large already', ['x'.repeat(1_000_000), '{{ big }}']],
  ])('that become larger than a megabyte are refused: %s', async (_, args) => {
    const big = { data: 'x'.repeat(100_000), token: Array.from({ length: 50_000 }, () => 1) };
    await expect(substituteTokens(newRequest(), args, () => big)).rejects.toMatchObject({
      message: expect.stringContaining('The detokenized arguments are too large') as string,
      // The place where the sum exceeds the limit would reveal how long the values before it are.
      field: 'args',
    });
  });

  it('that compute too much without output are refused', async () => {
    const big = { data: Array.from({ length: 200_000 }, () => 1), token: null };
    const args = Array.from({ length: 1_000 }, () => '{{ big | stringify | last4 }}');
    await expect(substituteTokens(newRequest(), args, () => big)).rejects.toMatchObject({
      field: 'args',
      message: 'An expression gives no value.',
    });
  });

  it('with more references than a thousand, or longer filters, are refused', () => {
    expect(() => findTokenReferences(['{{ abc }}'.repeat(600), '{{ abc }}'.repeat(401)])).toThrow(
      expect.objectContaining({ field: 'args', message: expect.stringContaining('1000') as string }) as Error,
    );
    const long = `{{ abc | append: "${'x'.repeat(1_000)}" }}`;
    expect(() => findTokenReferences(Array.from({ length: 17 }, () => long))).toThrow('16384');
  });
});
