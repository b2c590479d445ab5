import { describe, expect, it } from 'vitest';
import { compileExpression } from '../src/compile.ts';
import { ExpressionEvaluationError, type Json } from '../src/index.ts';
import { evaluateOne } from './support.ts';
import { compileRegexp } from '../src/filters/i-regexp.ts';

const store = {
  books: [
    { category: 'fiction', author: 'Herman Melville', title: 'Moby Dick', price: 8.99 },
    { category: 'fantasy', author: 'J. R. R. Tolkien', title: 'The Lord of the Rings', price: 22.99 },
  ],
  bicycle: { color: 'red', price: 19.95 },
  nothing: null,
};
const query = (path: string, data: Json = store) => evaluateOne(`{{ data | json: "${path}" }}`, { data });

describe('the json filter', () => {
  it.each<[string, Json]>([
    ['$', store],
    ['$.bicycle.color', 'red'],
    ['$.bicycle.price', 19.95],
    ['$.bicycle', store.bicycle],
    ['$.nothing', null],
    ['$.books[0].author', 'Herman Melville'],
    ['$.books[-1].title', 'The Lord of the Rings'],
    ['$.books[?(@.price < 10)].title', 'Moby Dick'],
    ["$.books[?@.category == 'fantasy'].price", 22.99],
    ['$..color', 'red'],
    ["$.books[?match(@.author, 'J[.] .*')].price", 22.99],
    ["$.books[?search(@.title, 'Moby|Ishmael')].price", 8.99],
    ['$.books[?length(@.title) == 9].price', 8.99],
    ['$[?count(@.*) == 2 && @.color].price', 19.95],
  ])('%s selects %j', (path, expected) => {
    expect(query(path)).toEqual(expected);
  });

  it.each([
    '$.missing',
    '$.book..author',
    '$.books[*].title',
    '$..price',
    '$.books[9]',
    '$.__proto__',
    '$.constructor',
  ])('%s, which does not select exactly one value, is refused', (path) => {
    expect(() => query(path)).toThrow('Filter json must select exactly one value.');
  });

  it('evaluates no code', () => {
    expect(() =>
      compileExpression(`{{ data | json: '$[?(@.constructor.constructor("return 1")())]' }}`),
    ).toThrow();
    expect(() => compileExpression(`{{ data | json: '$[(@.length-1)]' }}`)).toThrow();
  });

  it('takes a path computed from data', () => {
    const source = '{{ data | json: data.path }}';
    expect(evaluateOne(source, { data: { path: '$.a', a: 1 } })).toBe(1);
    expect(() => evaluateOne(source, { data: { path: 'secret[' } })).toThrow(
      'Filter json: the JSONPath is not valid (RFC 9535).',
    );
  });

  it.each<[string, string, Json]>([
    ['descends combinatorially', '$..*..*..*..*..*..*..nothing', nested(60)],
    ['nests whole-document filters', '$[?$[?$[?$[?@ == 9999]]]]', Array.from({ length: 1000 }, (_, i) => i)],
    ['compares documents', '$..[?$.x != $.y]', { x: ones(5000), y: ones(5000), z: ones(5000) }],
    ['backtracks', "$[?match(@, '(a+)+(a+)+(a+)+b')]", Array.from({ length: 100 }, () => 'a'.repeat(5000))],
    ['is deeper than the recursion limit', '$..a', nested(5000)],
  ])('ends a query that %s', (_, path, data) => {
    expect(() => query(path, data)).toThrow('Filter json needs more steps than are allowed.');
  });
});

function nested(depth: number): Json {
  let value: Json = [1, 2];
  for (let level = 0; level < depth; level += 1) value = [value, level];
  return value;
}

function ones(length: number): Json {
  return Array.from({ length }, () => 1);
}

describe('an I-Regexp', () => {
  it.each<[string, string, boolean, boolean]>([
    ['a', 'a', true, true],
    ['a', 'ba', false, true],
    ['', '', true, true],
    ['', 'x', false, true],
    ['ab*c', 'abbbc', true, true],
    ['(ab|cd)+', 'abcdab', true, true],
    ['(a*)*', 'aaab', false, true],
    ['a{2,3}', 'aaaa', false, true],
    ['a{2}', 'a', false, false],
    ['a{2,}', 'aaaaa', true, true],
    ['a?b', 'b', true, true],
    ['[^0-9]x', '_x', true, true],
    ['[^0-9]x', '1x', false, false],
    ['[a\\-z]', '-', true, true],
    ['\\p{Lu}\\p{Ll}+', 'Éclair', true, true],
    ['.', '\n', false, false],
    ['.', '😀', true, true],
    ['a\\.b', 'a.b', true, true],
    ['a\\tb', 'a\tb', true, true],
  ])('%s against %j: whole %s, part %s', (pattern, text, whole, part) => {
    const regexp = compileRegexp(pattern);
    expect(regexp?.test(text, 'whole', () => undefined)).toBe(whole);
    expect(regexp?.test(text, 'part', () => undefined)).toBe(part);
  });

  it.each([
    '(',
    ')',
    'a)',
    '[',
    '[]',
    '*',
    'a**',
    'a{3,2}',
    '\\d',
    '\\',
    '(?=a)',
    '\\p{Nope}',
    'a{9999}',
    '(((){999}){999}){999}',
  ])('%s is not accepted', (pattern) => {
    expect(compileRegexp(pattern)).toBeUndefined();
  });
});

it('a JSONPath error is an evaluation error', () => {
  expect(() => query('$.missing')).toThrow(ExpressionEvaluationError);
});
