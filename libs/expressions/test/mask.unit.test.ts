import { describe, expect, it } from 'vitest';
import { checkMask, mayRead, renderMask as renderMaskOf, type Json } from '../src/index.ts';
import { newRequest } from './support.ts';

const renderMask = (mask: Json, data: Json) => renderMaskOf(newRequest(), mask, data);

const issuesOf = async (mask: Json, data: Json) => (await checkMask(newRequest(), mask, data)).issues;

const card = { number: '4242424242424242', expiration_month: 10, expiration_year: 2030, cvc: '123' };
const bank = { routing_number: '021000021', account_number: '123456789012' };

describe('a default mask', () => {
  it.each<[string, Json, Json, Json]>([
    [
      'card',
      {
        number: '{{ data.number | reveal_last: 4 }}',
        expiration_month: '{{ data.expiration_month }}',
        expiration_year: '{{ data.expiration_year }}',
      },
      card,
      { number: 'XXXXXXXXXXXX4242', expiration_month: 10, expiration_year: 2030 },
    ],
    [
      'bank',
      {
        routing_number: '{{ data.routing_number }}',
        account_number: '{{ data.account_number | reveal_last: 4 }}',
      },
      bank,
      { routing_number: '021000021', account_number: 'XXXXXXXX9012' },
    ],
    ['card_number', '{{ data | reveal_last: 4 }}', '36227206271667', 'XXXXXXXXXX1667'],
    ['social_security_number', '{{ data | reveal_last: 4 }}', '123-45-6789', 'XXX-XX-6789'],
    ['employer_id_number', '{{ data | reveal_last: 4 }}', '12-3456789', 'XX-XXX6789'],
  ])('of a %s shows only the allowed characters', async (_, mask, data, expected) => {
    expect(await checkMask(newRequest(), mask, data)).toEqual({ issues: [], shown: expected });
    // At once, without a promise.
    expect(renderMask(mask, data)).toEqual(expected);
  });

  it('gives null for card fields that are absent', () => {
    expect(renderMask({ month: '{{ data.expiration_month }}' }, { number: '4242424242424242' })).toEqual({
      month: null,
    });
  });
});

describe('a mask', () => {
  it('may have any shape; leaves that are not strings are literals', async () => {
    const mask = {
      a: [{ b: '{{ data.number | last4 }}' }, 'text', 5, null, true],
      c: {},
      d: '{{ data.cvc | size }}!',
    };
    expect(await renderMask(mask, card)).toEqual({
      a: [{ b: '4242' }, 'text', 5, null, true],
      c: {},
      d: '3!',
    });
  });

  it('never evaluates data', () => {
    expect(renderMask('{{ data.a }}', { a: '{{ data.b }}', b: 'secret' })).toBe('{{ data.b }}');
    expect(renderMask('{{ data.a }}.', { a: '{{ data.b }}', b: 'secret' })).toBe('{{ data.b }}.');
  });

  it('keeps a property named __proto__ as a property', () => {
    const mask = JSON.parse('{"__proto__": {"x": "{{ data.cvc }}"}}') as Json;
    const shown = renderMask(mask, card);
    expect(JSON.stringify(shown)).toBe('{"__proto__":{"x":"123"}}');
    expect((shown as { x?: unknown }).x).toBeUndefined();
  });

  it('that fails at read time names the field', () => {
    expect(() => renderMask({ a: [{ b: '{{ data.number | to_boolean }}' }] }, card)).toThrow(
      expect.objectContaining({ name: 'ExpressionEvaluationError', field: 'mask.a[0].b' }) as Error,
    );
  });

  it('reports all syntax errors, or the first expression that cannot be evaluated over the data', async () => {
    const mask = { number: '{{ data | nope }}', ok: '{{ data }}', deep: [{ x: '{{' }] };
    expect(await issuesOf(mask, card)).toEqual([
      {
        field: 'mask.number',
        kind: 'syntax',
        message: 'There is no such filter.',
        position: { line: 1, column: 1 },
      },
      {
        field: 'mask.deep[0].x',
        kind: 'syntax',
        message: 'An output is not closed by }}.',
        position: { line: 1, column: 1 },
      },
    ]);
    expect(await issuesOf('{{ }}', card)).toMatchObject([{ field: 'mask' }]);
    expect(await issuesOf(['x', { y: '{{ data | to_number }}' }], card)).toEqual([
      { field: 'mask[1].y', kind: 'evaluation', message: 'Filter to_number needs a number.' },
    ]);
  });

  it('that is too deep or too large is refused', async () => {
    let deep: Json = 'x';
    for (let level = 0; level < 5_000; level += 1) deep = [deep];
    expect(await issuesOf(deep, null)).toEqual([
      { field: 'mask', kind: 'syntax', message: 'It must be at most 100 levels deep.' },
    ]);
    expect(() => renderMask(deep, null)).toThrow('levels deep');
    expect(
      await issuesOf(
        Array.from({ length: 1_001 }, () => '{{ data }}'),
        null,
      ),
    ).toHaveLength(1);
  });
});

describe('whether a mask may read the cvc', () => {
  const withoutCvc = { number: card.number, expiration_month: 10, expiration_year: 2030 };
  const others = [
    '{{ data.number | reveal_last: 4 }}',
    "{{ data['number'] }} of {{ data.expiration_month }}/{{ data.expiration_year }}",
    '{{ metadata.cvc }}',
    '{{ data.number.size }}',
    '{{ cvc }}',
    { shown: ['a text', 7, '{{ data.number | last4 }}'] },
  ];
  const readers = [
    '{{ data.cvc }}',
    "{{ data['cvc'] | reveal }}",
    "{{ data | json: '$.cvc' }}",
    '{{ data.size }}',
    '{{ data.first }}',
    '{{ data[0] }}',
    '{{ data[data.number] }}',
    '{{ data.number | append: data.cvc }}',
    '{% for each in data %}{{ each }}{% endfor %}',
    '{{ data.number }}{% if data.cvc %}!{% endif %}',
    ['{{ data.number }}', '{{ data.cvc }}'],
  ];

  it.each(others)('%j does not, and shows the same without one', async (mask) => {
    const shown = await renderMask(mask, card);
    expect(mayRead(mask, 'cvc')).toBe(false);
    expect(await renderMask(mask, withoutCvc)).toEqual(shown);
  });

  it.each(readers)('%j may', async (mask) => {
    await Promise.resolve(renderMask(mask, card)).catch(() => undefined);
    expect(mayRead(mask, 'cvc')).toBe(true);
  });

  it('is not known before the mask was evaluated', async () => {
    const mask = '{{ data.number | reveal_last: 3 }}';
    expect(mayRead(mask, 'cvc')).toBe(true);
    await renderMask(mask, card);
    expect(mayRead(mask, 'cvc')).toBe(false);
  });
});
