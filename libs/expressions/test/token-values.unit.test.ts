import { describe, expect, it } from 'vitest';
import {
  evaluateFingerprint,
  evaluateId,
  evaluateSearchIndexes,
  isTokenId,
  type Json,
} from '../src/index.ts';
import { newRequest, sample } from './support.ts';

describe('search indexes', () => {
  it('are one text for each expression', async () => {
    const expressions = ['{{ data }}', "{{ data | remove: '-' }}", '{{ data | last4 }}'];
    const evaluate = (sources: string[], value: Json) => evaluateSearchIndexes(newRequest(), sources, value);
    expect(await evaluate(expressions, '123-45-6789')).toEqual(['123-45-6789', '123456789', '6789']);
    expect(await evaluate(['{{ data.n }}', '{{ data.f }}'], sample)).toEqual(['5', 'false']);
  });

  it.each([
    '{{ data.missing }}',
    '{{ data.none }}',
    '{{ data.empty }}',
    '{{ data.list }}',
    '{{ data }}',
    '',
    '{{ data | nope }}',
  ])('%j, which gives no single value, is refused by its place', async (expression) => {
    await expect(
      evaluateSearchIndexes(newRequest(), ['{{ data.n }}', expression], sample),
    ).rejects.toMatchObject({
      field: 'search_indexes[1]',
    });
  });
});

describe('a fingerprint', () => {
  it.each<[string, string]>([
    ['{{ data.t }}', 'x'],
    ['{{ data.n }}', '5'],
    ['{{ data.inner }}', '{"a":{"b":[10,20]}}'],
    ['{{ data.inner | stringify }}', '{"a":{"b":[10,20]}}'],
    ['{{ data.t }}|{{ data.n }}', 'x|5'],
    ['{{ metadata.owner }}', 'me'],
  ])('%s is %j', async (expression, expected) => {
    const bindings = { data: sample, metadata: { owner: 'me' } };
    expect(await evaluateFingerprint(newRequest(), expression, bindings)).toBe(expected);
  });

  it('of a missing value is undefined', async () => {
    expect(await evaluateFingerprint(newRequest(), '{{ data.missing }}', { data: sample })).toBeUndefined();
    expect(await evaluateFingerprint(newRequest(), '{{ data.empty }}', { data: sample })).toBeUndefined();
  });

  it('that cannot be evaluated is refused', async () => {
    await expect(
      evaluateFingerprint(newRequest(), '{{ data | to_number }}', { data: sample }),
    ).rejects.toMatchObject({
      field: 'fingerprint_expression',
    });
  });
});

describe('an id', () => {
  it('is an expression over data, or a literal', async () => {
    const evaluate = (source: string, value: Json) => evaluateId(newRequest(), source, value);
    expect(await evaluate("user-{{ data.n | pad_left: 3, '0' }}", sample)).toBe('user-005');
    expect(await evaluate('my-id', sample)).toBe('my-id');
    expect(await evaluate('{{ data }}', 12345)).toBe('12345');
    expect(
      await evaluate(
        "{{ data | split: '@' | first | alias_preserve_length }}@{{ data | split: '@' | last }}",
        'jo@x.io',
      ),
    ).toMatch(/^[a-z0-9]{2}@x\.io$/);
  });

  it.each(['{{ data.missing }}', '{{ data.t }}', 'a/b/c', '{{ data.inner }}'])(
    '%s that is not valid is refused',
    async (expression) => {
      await expect(evaluateId(newRequest(), expression, sample)).rejects.toMatchObject({
        field: 'id',
        name: 'ExpressionEvaluationError',
      });
    },
  );

  it.each<[string, boolean]>([
    ['abc', true],
    ['ab', false],
    ['x'.repeat(400), true],
    ['x'.repeat(401), false],
    ['a.b-@:$!~*\'"(),; c', true],
    ...[...'#/\\+?[]|&=%<>{}^'].map((character): [string, boolean] => [`abc${character}`, false]),
  ])('%j is valid: %s', (id, valid) => {
    expect(isTokenId(id)).toBe(valid);
  });
});
