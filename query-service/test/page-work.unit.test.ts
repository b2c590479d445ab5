import type { Transform } from '@token-vault/contracts';
import { describe, expect, it } from 'vitest';
import { workOf } from '../src/tokens/page-bytes.ts';
import type { GrantedToken } from '../src/tokens/show.ts';

const token = (transform: Transform, characters: number, mask = 0) => {
  const row = {
    data: 'x'.repeat(characters),
    cvc: null,
    mask: 'x'.repeat(mask),
    metadata: null,
    search_indexes: null,
  };
  return { transform, row } as unknown as GrantedToken;
};
const page = (count: number, ...parts: Parameters<typeof token>) =>
  Array<GrantedToken>(count).fill(token(...parts));

describe('the work for a page', () => {
  it.each([
    ['twenty cards, too little to rest', page(20, 'reveal', 256), 4.1],
    ['a hundred masks of 4,000 characters', page(100, 'mask', 5_400), 72.7],
    ['twenty masked tokens of 480 KB, which somebody else may have stored', page(20, 'mask', 640_000), 52.8],
    ['eight revealed tokens of 500 KB', page(8, 'reveal', 667_000), 83],
    ['a hundred masks of constant text of 37,000 characters', page(100, 'mask', 90, 37_000), 246.7],
    ['the same masks beside data that is revealed', page(100, 'reveal', 90, 37_000), 76.6],
  ])('%s', (_name, tokens, ms) => {
    expect(workOf(tokens)).toBeCloseTo(ms, 0);
  });

  it('does not depend on data that is not shown', () => {
    expect(workOf(page(10, 'redact', 500_000))).toBe(workOf(page(10, 'redact', 0)));
  });
});
