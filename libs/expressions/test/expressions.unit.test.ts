import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compileExpression } from '../src/compile.ts';
import {
  containsExpression,
  evaluateFingerprint,
  evaluateId,
  evaluateSearchIndexes,
  ExpressionEvaluationError,
  ExpressionSyntaxError,
  isTokenId,
  type Json,
} from '../src/index.ts';
import { evaluateOne, newRequest } from './support.ts';

const run = (expression: string, data: Json, metadata?: Json): Json =>
  evaluateOne(expression, metadata === undefined ? { data } : { data, metadata });

/** The error, and all of its texts that might be logged. */
function failure(work: () => unknown): { readonly error: Error; readonly text: string } {
  try {
    work();
  } catch (error) {
    if (error instanceof Error)
      return {
        error,
        text: [error.message, error.stack, JSON.stringify(error), String(error.cause)].join(' '),
      };
  }
  throw new Error('nothing was thrown');
}

const data = {
  n: 5,
  t: 'x',
  f: false,
  list: [1, 'a', null],
  inner: { a: { b: [10, 20] } },
  empty: '',
  none: null,
};

describe('exactly one output', () => {
  it.each<[string, Json]>([
    ['{{ data }}', data],
    ['{{data.n}}', 5],
    ['{{- data.n -}}', 5],
    ['{{ data.f }}', false],
    ['{{ data.none }}', null],
    ['{{ data.list }}', [1, 'a', null]],
    ['{{ data.inner.a.b[1] }}', 20],
    ['{{ data.inner["a"].b[-1] }}', 20],
    ["{{ data['inner']['a'] }}", { b: [10, 20] }],
    ['{{ data.list.size }}', 3],
    ['{{ data.list.first }}', 1],
    ['{{ data.inner.a.b.last }}', 20],
    ['{{ data.t.size }}', 1],
    ['{{ data.empty }}', ''],
    ['{{ data.missing }}', null],
    ['{{ data.missing.deeper[3].still }}', null],
    ['{{ other }}', null],
    ['{{ metadata.owner }}', null],
    ['{{ data.n | plus: 1 }}', 6],
    ['{{ data.n | divided_by: 0 }}', null],
    ["{{ data.t | append: 'y' }}", 'xy'],
    ["{{ 'a,b' | split: ',' }}", ['a', 'b']],
    ['{{ data.missing | default: data.n }}', 5],
    ['{{ nil }}', null],
    ['{{ true }}', true],
    ['{{ 3.5 }}', 3.5],
    ["{{ 'text' }}", 'text'],
    ['{{ data.list | map: "x" }}', [null, null, null]],
  ])('%s keeps its JSON type: %j', (expression, expected) => {
    expect(run(expression, data)).toEqual(expected);
  });
});

describe('text around outputs', () => {
  it.each<[string, string]>([
    ['plain', 'plain'],
    ['', ''],
    [' {{ data.n }}', ' 5'],
    ['{{ data.n }}{{ data.t }}', '5x'],
    ['{{ data.n }}-{{ data.missing }}-{{ data.none }}|', '5--|'],
    ['a{{ data.inner }}', 'a{"a":{"b":[10,20]}}'],
    ['a{{ data.list }}', 'a1a'],
    ['{% if data.n > 4 %}big{% else %}small{% endif %}', 'big'],
    ['{% if data.f %}yes{% endif %}', ''],
    ['{% for i in data.inner.a.b %}{{ i }};{% endfor %}', '10;20;'],
    ['{% assign x = data.n | times: 2 %}{{ x }}', '10'],
    ['{% capture x %}<{{ data.t }}>{% endcapture %}{{ x }}{{ x }}', '<x><x>'],
    ['{% raw %}{{ data }}{% endraw %}', '{{ data }}'],
  ])('%s concatenates: %j', (expression, expected) => {
    expect(run(expression, data)).toBe(expected);
  });

  it('sees metadata when it is bound', () => {
    expect(run('{{ metadata.owner }}', null, { owner: 'me' })).toBe('me');
    expect(run('{{ data }}/{{ metadata.owner }}', 1, { owner: 'me' })).toBe('1/me');
  });
});

function hasShortCut(source: string): boolean {
  const compiled = compileExpression(source);
  return compiled.kind === 'text' || compiled.direct !== undefined;
}

describe('the short cut', () => {
  it('is taken by the default masks, fingerprints and indexes, and by equally simple expressions', () => {
    for (const source of [
      '{{ data.number | reveal_last: 4 }}',
      '{{ data | stringify }}',
      '{{ data.account_number }}|{{ data.routing_number }}',
      "{{ data | remove: '-' }}",
      '{{ data | last4 }}',
      "{{ data | json: '$.a[0].b' }}",
      'text',
    ])
      expect([source, hasShortCut(source)]).toEqual([source, true]);
  });

  it('is not taken by expressions that may take many steps', () => {
    for (const source of [
      `{{ data${' | last4'.repeat(5)} }}`,
      '{{ data }}'.repeat(11),
      "{{ data | json: '$..a' }}",
      "{{ data | json: '$[?@.a]' }}",
      "{{ data | split: '' }}",
      '{% if data %}{% endif %}',
    ])
      expect([source, hasShortCut(source)]).toEqual([source, false]);
  });

  it('gives the same result as the engine, for any value and filter of Liquid that it knows', () => {
    const filter = fc.constantFrom(
      "append: 'x-'",
      "prepend: 'x-'",
      "remove: '-'",
      "remove: ''",
      'upcase',
      'downcase',
    );
    const value = fc.oneof(
      fc.string(),
      fc.constantFrom<Json>('ß-İ-x', '-', '', 5, null, true, [1, 'a'], { a: 1 }),
    );
    fc.assert(
      fc.property(value, filter, (data, chain) => {
        expect(hasShortCut(`{{ data | ${chain} }}`)).toBe(true);
        expect(run(`{{ data | ${chain} }}`, data)).toEqual(run(`{{ data | raw | ${chain} }}`, data));
      }),
    );
  });

  it('gives the same result as the engine, for text with several outputs', () => {
    const part = fc.constantFrom(
      '{{ data.a }}',
      ' - ',
      '{{- data.b -}}',
      ' {{ data.list }} ',
      '{{ data | stringify }}',
    );
    fc.assert(
      fc.property(fc.array(part, { minLength: 1, maxLength: 4 }), (parts) => {
        const source = `<${parts.join('')}>`;
        const value = { a: 'x', b: { c: [1] }, list: [1, null, 'y'] };
        expect(run(source, value)).toEqual(run(`{% if true %}${source}{% endif %}`, value));
      }),
    );
  });

  it('gives the same result as the engine, for any data and path', () => {
    const keys = fc.constantFrom(
      'a',
      'b',
      'size',
      'first',
      'last',
      'length',
      '__proto__',
      'constructor',
      '0',
    );
    const { tree } = fc.letrec<{ tree: Json }>((tie) => ({
      tree: fc.oneof(
        { maxDepth: 4 },
        fc.constantFrom<Json>(null, true, 0, 7.5, '', 'text', '😀x'),
        fc.array(tie('tree'), { maxLength: 3 }),
        fc.array(fc.tuple(keys, tie('tree')), { maxLength: 4 }).map((entries) => Object.fromEntries(entries)),
      ),
    }));
    const steps = fc.array(
      fc.oneof(
        keys.map((key) => `["${key}"]`),
        fc.integer({ min: -3, max: 3 }).map((i) => `[${i}]`),
      ),
      {
        maxLength: 4,
      },
    );
    fc.assert(
      fc.property(tree, steps, (value, path) => {
        const source = `data${path.join('')}`;
        expect(hasShortCut(`{{ ${source} }}`)).toBe(true);
        // A filter of the engine makes the same path use the engine instead of the short cut.
        expect(hasShortCut(`{{ ${source} | raw }}`)).toBe(false);
        expect(run(`{{ ${source} }}`, value)).toEqual(run(`{{ ${source} | raw }}`, value));
      }),
    );
  });
});

describe('an expression that does not parse', () => {
  it.each([
    ['{{ data', 1, 1],
    ['ab\n {{ data | nope }}', 2, 2],
    ['{% if data %}', 1, 1],
    ['{% include "x" %}', 1, 1],
    ['{% render "x" %}', 1, 1],
    ['{% layout "x" %}', 1, 1],
    ['{% block x %}{% endblock %}', 1, 1],
    ['{% nothing %}', 1, 1],
    ['{{ data | where_exp: "x", "x.a" }}', 1, 1],
    ['{{ data | sample }}', 1, 1],
  ])('%j is refused with its position', (expression, line, column) => {
    const { error } = failure(() => compileExpression(expression));
    expect(error).toBeInstanceOf(ExpressionSyntaxError);
    expect((error as ExpressionSyntaxError).position).toEqual({ line, column });
    expect(error.message).toMatch(/^(An?|There|It|The) [a-zA-Z }|]+\.$/);
  });

  it.each(['{{ }}', '{{}}', '{{ | last4 }}'])('%j, which names no value, is refused', (expression) => {
    expect(() => compileExpression(expression)).toThrow(ExpressionSyntaxError);
  });

  it('is refused when it is too long or too deeply nested', () => {
    expect(() => compileExpression(`{{ data }}${' '.repeat(8_192)}`)).toThrow('8192');
    expect(() => compileExpression('{% if data %}'.repeat(600))).toThrow(ExpressionSyntaxError);
  });
});

describe('an error', () => {
  it.each([
    '{{ data | to_number }}',
    '{{ data | to_boolean }}',
    "{{ data | json: '$.x' }}",
    '{{ data | base64_decode }}',
    '{{ data | url_decode }}',
    '{{ data | alias_card }}',
    "{{ 'abc' | reveal_last: data }}",
    "{{ 'abc' | pad_left: 5, data }}",
    '{{ data | json: data }}',
    'x {{ data | to_number }}',
    '{% if true %}{{ data | to_number }}{% endif %}',
  ])('of %s never quotes data', (expression) => {
    const { error, text } = failure(() => run(expression, 'CANARY-%zz-4111'));
    expect(error).toBeInstanceOf(ExpressionEvaluationError);
    expect(text).not.toMatch(/CANARY|4111|%zz/);
  });
});

describe('prototypes', () => {
  it.each([
    '{{ data.__proto__ }}',
    '{{ data["__proto__"] }}',
    '{{ data.constructor }}',
    '{{ data.constructor.constructor }}',
    '{{ data.toString }}',
    '{{ data.t.constructor }}',
    '{{ data.list.map }}',
    '{{ __proto__ }}',
    '{{ constructor }}',
    '{{ toString.constructor }}',
    "{{ data | map: '__proto__' | first }}",
    '{{ data[data.key] | raw }}',
  ])('%s is null', (expression) => {
    expect(run(expression, { t: 'x', list: [1], key: 'constructor' })).toBeNull();
  });

  it('are not polluted, and an own property named like one is a property', () => {
    const own = JSON.parse('{"__proto__": {"x": 1}, "constructor": "c"}') as Json;
    expect(run('{{ data.__proto__.x }}', own)).toBe(1);
    expect(run('{{ data.constructor }}', own)).toBe('c');
    run(
      '{% assign __proto__ = data %}{% increment __proto__ %}{% capture constructor %}1{% endcapture %}',
      own,
    );
    expect(({} as { x?: number }).x).toBeUndefined();
  });

  it('are not changed by data, which no expression changes', () => {
    const frozen = { list: [3, 1, 2] };
    Object.freeze(frozen);
    Object.freeze(frozen.list);
    const source = '{{ data.list | sort | reverse | push: 4 | uniq | join }}{% increment data %}{{ data }}';
    // `increment` writes 0 and makes a variable of that name, in the expression only.
    expect(run(source, frozen)).toBe('3 2 1 4' + '0' + '1');
    expect(frozen.list).toEqual([3, 1, 2]);
  });
});

describe('search indexes', () => {
  it('are one text for each expression', async () => {
    const expressions = ['{{ data }}', "{{ data | remove: '-' }}", '{{ data | last4 }}'];
    const evaluate = (sources: string[], value: Json) => evaluateSearchIndexes(newRequest(), sources, value);
    expect(await evaluate(expressions, '123-45-6789')).toEqual(['123-45-6789', '123456789', '6789']);
    expect(await evaluate(['{{ data.n }}', '{{ data.f }}'], data)).toEqual(['5', 'false']);
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
      evaluateSearchIndexes(newRequest(), ['{{ data.n }}', expression], data),
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
    const bindings = { data, metadata: { owner: 'me' } };
    expect(await evaluateFingerprint(newRequest(), expression, bindings)).toBe(expected);
  });

  it('of a missing value is undefined', async () => {
    expect(await evaluateFingerprint(newRequest(), '{{ data.missing }}', { data })).toBeUndefined();
    expect(await evaluateFingerprint(newRequest(), '{{ data.empty }}', { data })).toBeUndefined();
  });

  it('that cannot be evaluated is refused', async () => {
    await expect(evaluateFingerprint(newRequest(), '{{ data | to_number }}', { data })).rejects.toMatchObject(
      {
        field: 'fingerprint_expression',
      },
    );
  });
});

describe('an id', () => {
  it('is an expression over data, or a literal', async () => {
    const evaluate = (source: string, value: Json) => evaluateId(newRequest(), source, value);
    expect(await evaluate("user-{{ data.n | pad_left: 3, '0' }}", data)).toBe('user-005');
    expect(await evaluate('my-id', data)).toBe('my-id');
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
      await expect(evaluateId(newRequest(), expression, data)).rejects.toMatchObject({
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

it.each<[string, boolean]>([
  ['{{ data }}', true],
  ['x{% if %}', true],
  ['{ data }', false],
  ['}}', false],
  ['', false],
])('%j contains an expression: %s', (text, expected) => {
  expect(containsExpression(text)).toBe(expected);
});
