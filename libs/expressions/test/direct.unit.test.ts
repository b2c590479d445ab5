import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compileExpression } from '../src/compile.ts';
import type { Json } from '../src/index.ts';
import { run } from './support.ts';

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
