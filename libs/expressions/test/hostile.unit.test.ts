import { describe, expect, it } from 'vitest';
import { compileExpression } from '../src/compile.ts';
import { ExpressionEvaluationError, limits, renderMask, type Json } from '../src/index.ts';
import { evaluateOne, newRequest } from './support.ts';
import { GenerationCache } from '../src/generation-cache.ts';

const wide: Json = Array.from({ length: 100_000 }, (_, index) => index);
const long = 'x'.repeat(500_000);

// Without limits each of these would run for minutes or exhaust the heap. The time-out of the test runner is the limit here.
describe('a hostile expression ends in an evaluation error', () => {
  it.each<[string, string, Json]>([
    ['a huge range', '{% for i in (1..1000000000) %}x{% endfor %}', null],
    ['a huge range as a value', '{{ (1..1000000000) }}', null],
    ['a range without end', '{{ (1..data) }}', 1e308],
    [
      'nested loops',
      '{% for a in data %}{% for b in data %}{% for c in data %}{% endfor %}{% endfor %}{% endfor %}',
      wide,
    ],
    ['a doubling string', `{% assign a = data %}${'{% assign a = a | append: a %}'.repeat(60)}{{ a }}`, long],
    [
      'a doubling array',
      `{% assign a = data %}${'{% assign a = a | push: a | concat: a %}'.repeat(60)}{{ a }}`,
      [1],
    ],
    [
      'a doubling array that is stringified',
      `{% assign a = data %}${'{% assign a = a | push: a | push: a %}'.repeat(60)}{{ a | upcase }}`,
      [1],
    ],
    ['output without end', '{% for i in (1..100000) %}{{ data }}{% endfor %}', long],
    [
      'captures without end',
      '{% capture a %}{% for i in (1..100000) %}{{ data }}{% endfor %}{% endcapture %}',
      long,
    ],
    ['a replacement that explodes', '{{ data | replace: "x", data }}', long],
    ['a table', '{% tablerow i in (1..3000000) %}{{ data }}{% endtablerow %}', long],
    ['padding by format', "{{ 'now' | date: '%1000000000d' }}", null],
    [
      'the same data many times',
      `{% assign a = data %}${'{% assign a = a | push: data %}'.repeat(200)}{{ a }}`,
      [long],
    ],
    ['sorting', '{% for i in (1..1000) %}{% assign a = data | sort | sort_natural %}{% endfor %}', wide],
    [
      'deep equality',
      '{% for i in (1..100000) %}{% if data == data.clone %}{% endif %}{% endfor %}',
      { clone: wide },
    ],
    ['huge arrays into filters', '{{ (1..4000000) | sort }}', null],
  ])('%s', (_, expression, data) => {
    expect(() => evaluateOne(expression, { data })).toThrow(ExpressionEvaluationError);
  });

  it('also when the work is spread over the fields of a mask', async () => {
    const loop = '{% for i in (1..4000) %}{% for j in (1..4000) %}{{ i }}{% endfor %}{% endfor %}';
    const mask = Array.from({ length: limits.maskExpressions }, (_, index) => `${index}${loop}`);
    const shown = async (of: Json, data: Json) => renderMask(newRequest(), of, data);
    await expect(shown(mask, null)).rejects.toThrow(ExpressionEvaluationError);

    const amplifier = Array.from({ length: limits.maskExpressions }, () => '{{ data }}');
    await expect(shown(amplifier, wide)).rejects.toThrow('The results of the expressions are too large.');
    await expect(shown(amplifier, long)).rejects.toThrow('The results of the expressions are too large.');

    const cheap = Array.from({ length: limits.maskExpressions }, () => '{{ data | stringify | last4 }}');
    await expect(shown(cheap, wide)).rejects.toThrow(ExpressionEvaluationError);
  });
});

describe('the memory that expressions take while they are evaluated', () => {
  /** Takes 500,000 characters for each time. Its result is short. */
  const capturing = (times: number) =>
    `{% capture all %}${'{{ data }}'.repeat(times)}{% endcapture %}{{ all | size }}`;

  it('is bounded for one', () => {
    expect(evaluateOne(capturing(6), { data: long })).toBe('3000000');
    expect(() => evaluateOne(capturing(9), { data: long })).toThrow('The expression takes too much memory.');
  });

  it('is bounded for all of a request together', async () => {
    const request = newRequest();
    const page = Array.from({ length: 7 }, async () => renderMask(request, capturing(6), long));
    const atOnce = Math.floor(limits.memoryOfRequest / 3_000_000);
    const shown = (await Promise.allSettled(page)).filter(({ status }) => status === 'fulfilled');
    expect(shown).toHaveLength(atOnce);
  });

  it('does not tell the caller how long the data of the next token is', async () => {
    // Too long for the thread that serves requests.
    const hidden = '{% for i in (1..20000) %}{% endfor %}{{ data | upcase | size }}';
    const isShownAfter = async (taken: number, length: number) => {
      const request = newRequest();
      const own = Array.from({ length: 5 }, async () => renderMask(request, capturing(6), long));
      const last = async () => renderMask(request, capturing(1), 'x'.repeat(taken));
      const shown = async () => renderMask(request, hidden, 'x'.repeat(length));
      return (await Promise.allSettled([...own, last(), shown()])).every(
        ({ status }) => status === 'fulfilled',
      );
    };
    const mostBefore = async (length: number) => {
      let [shown, notShown] = [0, 2_000_000];
      while (notShown - shown > 1) {
        const taken = Math.floor((shown + notShown) / 2);
        if (await isShownAfter(taken, length)) shown = taken;
        else notShown = taken;
      }
      return shown;
    };
    expect(await mostBefore(30)).toBe(await mostBefore(3_000));
  });
});

describe('honest expressions', () => {
  it('have outputBudget for the largest data', () => {
    const data = { text: 'a'.repeat(524_000) };
    expect(evaluateOne('{{ data.text | upcase | downcase | strip | reverse | first }}', { data })).toBe(
      data.text,
    );
    expect(evaluateOne('{{ data.text | reveal_last: 4 }}', { data })).toBe(`${'X'.repeat(523_996)}aaaa`);
    expect(evaluateOne('{{ data | stringify }}', { data })).toBe(JSON.stringify(data));
    expect(evaluateOne('{{ data | reverse | first }}', { data: wide })).toBe(99_999);
    expect(evaluateOne('{% for i in (0..999) %}{{ i }},{% endfor %}', { data: null })).toMatch(
      /^0,1,.*,999,$/,
    );
  });
});

describe('the cache', () => {
  it('gives the same compiled expression again', () => {
    expect(compileExpression('{{ data.once }}')).toBe(compileExpression('{{ data.once }}'));
  });

  it('drops unused templates and keeps at most two generations', () => {
    const cache = new GenerationCache<number, string>(10);
    cache.set(0, 'kept');
    for (let key = 1; key < 1_000; key += 1) {
      cache.set(key, 'x');
      expect(cache.get(0)).toBe('kept');
      expect(cache.size).toBeLessThanOrEqual(20);
    }
    expect(cache.get(1)).toBeUndefined();
  });
});
