import { describe, expect, it } from 'vitest';
import { readPathsOf } from '../src/index.ts';

const everything = [['data'], ['metadata']];

describe('the paths that an expression reads', () => {
  it.each([
    ['4', []],
    ['{{ "data" }}', []],
    ['{{ data.number | reveal_last: 4 }}', [['data', 'number']]],
    [
      '{{ data.a }}|{{ metadata.b }}',
      [
        ['data', 'a'],
        ['metadata', 'b'],
      ],
    ],
    ['{{ data.a.size }}', [['data', 'a']]],
    ['{{ data.first }}', [['data']]],
    ['{{ data.a.0 }}', [['data', 'a']]],
    ['{{ data.a.12.b }}', [['data', 'a']]],
    ['{{ data.a.length }}', [['data', 'a']]],
    ['{{ data.a.0b }}', [['data', 'a', '0b']]],
    [
      '{{ data.a | reveal: data.n }}',
      [
        ['data', 'a'],
        ['data', 'n'],
      ],
    ],
    [
      '{% if data.a %}{{ metadata.k }}{% endif %}',
      [
        ['data', 'a'],
        ['metadata', 'k'],
      ],
    ],
    ['{% increment data %}{{ metadata.s }}', everything],
    ['{%- decrement data -%}', everything],
    ['{% assign x = data %}{{ x.secret }}', [['data']]],
    ['{% capture data %}1{% endcapture %}{{ data.x }}', [['data', 'x']]],
    [
      '{% case 1 %}{% when data.a %}1{% else %}{{ data.b }}{% endcase %}',
      [
        ['data', 'a'],
        ['data', 'b'],
      ],
    ],
    ['{% liquid echo data.q %}', [['data', 'q']]],
  ])('%s', (source, paths) => {
    const sorted = (of: readonly (readonly string[])[]) => of.map((path) => path.join('.')).sort();
    expect(sorted(readPathsOf(source))).toEqual(sorted(paths));
  });

  it.each([
    '{{ data[data.k] }}',
    '{{ [metadata.k].x }}',
    '{% assign k = "data" %}{{ [k] }}',
    '{{ data["x"] }}',
    '{{ nope',
  ])('counts as all data where the paths cannot be determined: %s', (source) => {
    expect(readPathsOf(source)).toEqual(everything);
  });
});
