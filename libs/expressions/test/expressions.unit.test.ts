import { describe, expect, it } from 'vitest';
import { compileExpression } from '../src/compile.ts';
import {
  containsExpression,
  ExpressionEvaluationError,
  ExpressionSyntaxError,
  type Json,
} from '../src/index.ts';
import { run, sample } from './support.ts';

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

describe('exactly one output', () => {
  it.each<[string, Json]>([
    ['{{ data }}', sample],
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
    expect(run(expression, sample)).toEqual(expected);
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
    expect(run(expression, sample)).toBe(expected);
  });

  it('sees metadata when it is bound', () => {
    expect(run('{{ metadata.owner }}', null, { owner: 'me' })).toBe('me');
    expect(run('{{ data }}/{{ metadata.owner }}', 1, { owner: 'me' })).toBe('1/me');
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

it.each<[string, boolean]>([
  ['{{ data }}', true],
  ['x{% if %}', true],
  ['{ data }', false],
  ['}}', false],
  ['', false],
])('%j contains an expression: %s', (text, expected) => {
  expect(containsExpression(text)).toBe(expected);
});
