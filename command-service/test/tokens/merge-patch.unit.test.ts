import type { Json } from '@token-vault/contracts';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { mergePatch } from '../../src/tokens/merge-patch.ts';

describe('a merge patch', () => {
  // RFC 7386, appendix A.
  it.each<[string, string, string]>([
    ['{"a":"b"}', '{"a":"c"}', '{"a":"c"}'],
    ['{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'],
    ['{"a":"b"}', '{"a":null}', '{}'],
    ['{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'],
    ['{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'],
    ['{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'],
    ['{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'],
    ['{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'],
    ['["a","b"]', '["c","d"]', '["c","d"]'],
    ['{"a":"b"}', '["c"]', '["c"]'],
    ['{"a":"foo"}', 'null', 'null'],
    ['{"a":"foo"}', '"bar"', '"bar"'],
    ['{"e":null}', '{"a":1}', '{"e":null,"a":1}'],
    ['[1,2]', '{"a":"b","c":null}', '{"a":"b"}'],
    ['{}', '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'],
  ])('turns %s by %s into %s', (target, patch, result) => {
    expect(mergePatch(JSON.parse(target) as Json, JSON.parse(patch) as Json)).toEqual(JSON.parse(result));
  });

  it('treats names with a meaning in JavaScript like any other name', () => {
    const patch = JSON.parse('{"__proto__":{"polluted":true},"constructor":{"prototype":1}}') as Json;
    const merged = mergePatch({ toString: 'x' }, patch);
    expect(JSON.parse(JSON.stringify(merged))).toEqual(
      JSON.parse('{"toString":"x","__proto__":{"polluted":true},"constructor":{"prototype":1}}'),
    );
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
    expect(JSON.stringify(mergePatch(merged, JSON.parse('{"__proto__":null}') as Json))).not.toContain(
      'polluted',
    );
  });

  it('changes neither target nor patch, and gives the same result twice', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (target, patch) => {
        const [before, given] = [JSON.stringify(target), JSON.stringify(patch)];
        const once = mergePatch(target as Json, patch as Json);
        expect(JSON.stringify(mergePatch(once, patch as Json))).toBe(JSON.stringify(once));
        expect([JSON.stringify(target), JSON.stringify(patch)]).toEqual([before, given]);
      }),
    );
  });
});
