import { describe, expect, it } from 'vitest';
import { compileExpression } from '../src/compile.ts';
import type { RandomInt } from '../src/filters/index.ts';
import { ExpressionEvaluationError, ExpressionSyntaxError, type Json } from '../src/index.ts';
import { evaluateOne } from './support.ts';

const run = (expression: string, data: Json, random?: RandomInt): Json =>
  evaluateOne(expression, { data }, random);

/** The same filter through the engine instead of the short cut: an assignment makes the argument computed. */
const runInEngine = (chain: string, data: Json): Json => run(`{% assign v = data %}{{ v | ${chain} }}`, data);

const dashed = '3622-7206-2716-5567';
const plain = '3622720627165567';

describe('the samples of the filter table', () => {
  it.each<[string, Json, Json]>([
    [`card_mask: 'true','true','#','-'`, dashed, '3622-7206-####-5567'],
    [`card_mask: 'false','false','X','-'`, dashed, 'XXXX-XXXX-XXXX-XXXX'],
    [`card_mask: 'true','false','X','-'`, dashed, '3622-7206-XXXX-XXXX'],
    [`card_mask: 'false','true','X','-'`, dashed, 'XXXX-XXXX-XXXX-5567'],
    [`card_mask: true, true, '#', '-'`, plain, '36227206####5567'],
    ['card_mask', plain, 'XXXXXXXXXXXXXXXX'],
    ['card_mask: true', plain, '36227206XXXXXXXX'],
    ['card_mask: false, true', plain, 'XXXXXXXXXXXX5567'],
    ['card_bin', plain, '36227206'],
    ['card_bin', '411111111111111', '411111'],
    [`card_bin: '-'`, '4242-4242-4242-4242', '42424242'],
    ['last4', '36227206271667', '1667'],
    ['last4', '12', '12'],
    [`pad_left: 6, '0'`, '1234', '001234'],
    [`pad_left: 6, 'X'`, '1234', 'XX1234'],
    [`pad_left: 4, '0'`, '1234', '1234'],
    [`pad_left: 2, '0'`, '1234', '1234'],
    [`pad_left: 6, '0'`, 1234, '001234'],
    [`pad_left: 2, 0`, 7, '07'],
    [`pad_right: 6, '0'`, '1234', '123400'],
    [`pad_right: 2, '0'`, '1234', '1234'],
    ['reveal: 6', dashed, '3622-7XXXXXXXXXXXXX'],
    ['reveal: 7,5', dashed, '3622-72XXXXXXX-5567'],
    [`reveal: 7, 5, '#'`, dashed, '3622-72#######-5567'],
    [`reveal: 7,4,'#','-'`, dashed, '3622-72##-####-5567'],
    ['reveal: 10, 9', dashed, 'XXXXXXXXXXXXXXXXXXX'],
    ['reveal', 'secret', 'XXXXXX'],
    ['reveal_last: 4', '123-45-6789', 'XXX-XX-6789'],
    ['reveal_last: 4', 'Sensitive Value', 'XXXXXXXXXXXalue'],
    ['reveal_last: 6', '36227206271667', 'XXXXXXXX271667'],
    [`reveal_last: 3, '#'`, '36227206271667', '###########667'],
    ['reveal_last: 4', '1234', '1234'],
    ['stringify', { color: 'red', price: 19.95 }, '{"color":"red","price":19.95}'],
    ['stringify', [1, { a: null }], '[1,{"a":null}]'],
    ['stringify', 8.99, '8.99'],
    ['stringify', 'The Lord of the Rings', 'The Lord of the Rings'],
    ['to_boolean', 'true', true],
    ['to_boolean', 'False', false],
    ['to_boolean', true, true],
    ['to_number', '42', 42],
    ['to_number', ' -3.14159 ', -3.14159],
    ['to_number', 7, 7],
    ['to_string', 3.14159, '3.14159'],
    ['to_string', true, 'true'],
    ['to_string', 'foo', 'foo'],
  ])('%s of %j is %j', (chain, data, expected) => {
    expect(run(`{{ data | ${chain} }}`, data)).toBe(expected);
    expect(runInEngine(chain, data)).toBe(typeof expected === 'string' ? expected : JSON.stringify(expected));
  });

  it.each([
    'alias_card',
    'alias_preserve_format',
    'alias_preserve_length',
    'card_mask',
    'card_bin',
    'last4',
    `pad_left: 6, '0'`,
    `pad_right: 6, '0'`,
    'reveal: 2',
    'reveal_last: 4',
    'stringify',
    'to_boolean',
    'to_number',
    'to_string',
  ])('%s of null is null', (chain) => {
    expect(run(`{{ data | ${chain} }}`, null)).toBeNull();
    expect(run(`{{ data.missing.deeper | ${chain} }}`, {})).toBeNull();
  });
});

describe('a masking filter', () => {
  it.each<[string, Json, Json]>([
    ['reveal_last: 0', '12-3', 'XX-X'],
    ['reveal_last: 99999999', 'abc', 'abc'],
    [`reveal_last: '2'`, 'abcd', 'XXcd'],
    ['reveal_last: 4', '', ''],
    ['reveal_last: 2', 123456, 'XXXX56'],
    ['reveal_last: 1', true, 'XXXe'],
    [`reveal_last: 2, '$'`, 'abcd', '$$cd'],
    [`reveal_last: 2, '😀'`, 'abcd', '😀😀cd'],
    ['reveal_last: 2', 'a😀b😀c', 'XXX😀c'],
    ['reveal_last: 1', '😀-😀', 'X-😀'],
    ['last4', '1😀2😀3😀', '😀2😀3😀'.slice(2)],
    ['last4', '1😀😀😀😀', '😀😀😀😀'],
    ['last4', '1😀2😀😀😀', '2😀😀😀'],
    ['reveal: 1, 1', '😀a😀', '😀X😀'],
    ['reveal: 3', 'abc', 'XXX'],
    ['reveal: 2, 2', 'abc', 'XXX'],
    [`reveal: 1, 1, 'X', '-'`, 'a--b', 'XXXX'],
    ['reveal: 4', '', ''],
    ['card_mask: true, true', '4242424242', 'XXXXXXXXXX'],
    ['card_mask: true, true', '42424242424', '424242X2424'],
    ['card_mask: true', '12345', 'XXXXX'],
    ['card_mask: false, true', '123', 'XXX'],
    ['card_mask: true, true', dashed, '3622-7206XXXXXX5567'],
    [`card_mask: true, true, '*', ' '`, '3782 822463 10005', '3782 82**** *0005'],
  ])('%s of %j is %j', (chain, data, expected) => {
    expect(run(`{{ data | ${chain} }}`, data)).toBe(expected);
  });

  it.each([{ a: 1 }, ['secret']])('refuses %j, without quoting it', (data) => {
    for (const chain of ['reveal: 1', 'reveal_last: 4', 'last4', 'card_mask', 'card_bin', 'alias_card'])
      expect(() => run(`{{ data | ${chain} }}`, data)).toThrow(ExpressionEvaluationError);
    expect(() => run('{{ data | last4 }}', data)).toThrow('Filter last4 needs text, a number or a boolean.');
  });
});

describe('arguments', () => {
  it.each([
    'reveal_last',
    'reveal_last: -1',
    `reveal_last: 'four'`,
    'reveal_last: 1.5',
    'reveal_last: true',
    `reveal_last: 4, ''`,
    `reveal_last: 4, 'XX'`,
    `reveal_last: 4, 'X', 1`,
    'reveal_last: length: 4',
    `reveal: 'x'`,
    `card_mask: 'yes'`,
    'card_mask: 1',
    'alias_card: 0',
    'pad_left: 3',
    `pad_left: 100000000, '0'`,
    'json',
    `json: 'number'`,
    `json: '$['`,
    'json: 5',
    'last4: 1',
  ])('of %s are refused when the expression is compiled', (chain) => {
    expect(() => compileExpression(`{{ data | ${chain} }}`)).toThrow(ExpressionSyntaxError);
    expect(() => compileExpression(`{% if true %}a {{ data | ${chain} }}{% endif %}`)).toThrow(
      ExpressionSyntaxError,
    );
  });

  it('that are computed are checked when the expression is evaluated, without quoting them', () => {
    const source = '{{ data.text | reveal_last: data.length }}';
    expect(evaluateOne(source, { data: { text: 'abcd', length: 1 } })).toBe('XXXd');
    expect(() => evaluateOne(source, { data: { text: 'abcd', length: 'secret' } })).toThrow(
      'Filter reveal_last: length must be a whole number, 0 or more.',
    );
  });
});

describe('a cast', () => {
  it.each<[string, Json]>([
    ['to_number', 'abc'],
    ['to_number', ''],
    ['to_number', '0x10'],
    ['to_number', '1e999'],
    ['to_number', 'Infinity'],
    ['to_number', true],
    ['to_number', {}],
    ['to_number', '6011000990139424123'],
    ['to_boolean', 'yes'],
    ['to_boolean', 1],
    ['to_boolean', []],
    ['to_string', { a: 1 }],
    ['to_string', []],
  ])('%s refuses %j', (chain, data) => {
    expect(() => run(`{{ data | ${chain} }}`, data)).toThrow(ExpressionEvaluationError);
  });
});

describe('an alias', () => {
  const luhnSum = (text: string) =>
    [...text.replace(/\D/g, '')].toReversed().reduce((sum, digit, index) => {
      const value = Number(digit) * (index % 2 === 0 ? 1 : 2);
      return sum + (value > 9 ? value - 9 : value);
    }, 0);
  const draws = Array.from({ length: 200 });

  it.each<[string, string, RegExp]>([
    ['alias_card', plain, /^\d{16}$/],
    ['alias_card', dashed, /^\d{4}-\d{4}-\d{4}-\d{4}$/],
    [`alias_card: 'true'`, dashed, /^3622-7206-\d{4}-\d{4}$/],
    [`alias_card: 'true', 'true'`, dashed, /^3622-7206-\d{4}-5567$/],
    [`alias_card: 'false', 'true'`, plain, /^\d{12}5567$/],
    ['alias_card: true', '3782 822463 10005', /^3782 82\d{4} \d{5}$/],
    ['alias_card: true, true', '42424242424', /^424242\d2424$/],
    ['alias_preserve_format', 'ABC12345DEF67890', /^[a-z]{3}\d{5}[a-z]{3}\d{5}$/],
    ['alias_preserve_format: 3', 'ABC12345DEF67890', /^ABC\d{5}[a-z]{3}\d{5}$/],
    ['alias_preserve_format: 3, 5', 'ABC12345DEF67890', /^ABC\d{5}[a-z]{3}67890$/],
    ['alias_preserve_format', '(É-٣)😀', /^\([a-z]-\d\)😀$/u],
    ['alias_preserve_length', 'A-C 12😀', /^[a-z0-9]{7}$/],
    ['alias_preserve_length: 0, 5', 'ABC12345DEF67890', /^[a-z0-9]{11}67890$/],
  ])('%s of %j looks like %s', (chain, data, shape) => {
    const aliases = draws.map(() => run(`{{ data | ${chain} }}`, data) as string);
    for (const alias of aliases) expect(alias).toMatch(shape);
    expect(aliases).not.toContain(data);
  });

  it('of a card never passes the Luhn check, not even when the digits drawn would', () => {
    for (const _ of draws) expect(luhnSum(run('{{ data | alias_card }}', plain) as string) % 10).not.toBe(0);
    expect(run('{{ data | alias_card }}', plain, () => 0)).toBe('0000000000000001');
  });

  it.each<[string, Json]>([
    ['alias_card: true, true', '4242424242'],
    ['alias_card: true', '12345'],
    ['alias_card', '4242x242'],
    ['alias_card', ''],
    ['alias_preserve_format', '--//--'],
    ['alias_preserve_format: 2, 2', 'abc'],
    ['alias_preserve_length: 99', 'abc'],
    ['alias_preserve_length', ''],
  ])('%s of %j is refused rather than equal to its value', (chain, data) => {
    expect(() => run(`{{ data | ${chain} }}`, data)).toThrow(ExpressionEvaluationError);
  });

  it('is drawn again when it equals the value', () => {
    const drawn = [5, 7];
    expect(run('{{ data | alias_preserve_format }}', '5', () => drawn.shift() ?? 0)).toBe('7');
    expect(() => run('{{ data | alias_preserve_format }}', '5', () => 5)).toThrow(ExpressionEvaluationError);
  });
});

describe('card_bin', () => {
  it.each(['411111', '12', '', 'abcdefghijklmnop'])('refuses %j, which it would show completely', (data) => {
    expect(() => run('{{ data | card_bin }}', data)).toThrow(ExpressionEvaluationError);
  });
});
