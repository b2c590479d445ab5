import { describe, expect, it } from 'vitest';
import { heaviest } from '../src/sandbox/waiting.ts';

const held = (tenantId: string, ...sizes: number[]) => sizes.map((rssMb) => ({ tenantId, rssMb }));

describe('runs that hold too much memory together', () => {
  it('none is ended while they use no more than the limit', () => {
    expect(heaviest([...held('alice', 300), ...held('mallory', 100, 200)], 600)).toBeUndefined();
    expect(heaviest([], 0)).toBeUndefined();
  });

  it('the largest run of the tenant that holds the most is ended, not the largest of all', () => {
    const all = [...held('alice', 300), ...held('mallory', 100, 200, 150)];
    expect(heaviest(all, 749)).toEqual({ tenantId: 'mallory', rssMb: 200 });
  });
});
