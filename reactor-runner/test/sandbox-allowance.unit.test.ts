import { describe, expect, it } from 'vitest';
import { createAllowance } from '../src/sandbox/allowance.ts';

function allowance() {
  const clock = { ms: 5_000 };
  return { clock, ...createAllowance(3, 1_000, () => clock.ms) };
}

describe('an allowance', () => {
  it('gives the full amount at once, and then one in each period', () => {
    const { clock, spend, waitMs } = allowance();
    const waits = [0, 0, 0, 1_000].map((expected) => {
      expect(waitMs('a')).toBe(expected);
      spend('a');
      return waitMs('a');
    });
    expect(waits).toEqual([0, 0, 1_000, 2_000]);
    clock.ms += 2_000;
    expect(waitMs('a')).toBe(0);
    spend('a');
    expect(waitMs('a')).toBe(1_000);
  });

  it('is full again after some time, and never more than full', () => {
    const { clock, spend, waitMs } = allowance();
    spend('a');
    clock.ms += 1_000_000;
    for (let i = 0; i < 3; i += 1) {
      expect(waitMs('a')).toBe(0);
      spend('a');
    }
    expect(waitMs('a')).toBe(1_000);
  });

  it('is separate for each tenant', () => {
    const { spend, waitMs } = allowance();
    for (let i = 0; i < 10; i += 1) spend('a');
    expect(waitMs('a')).toBe(8_000);
    expect(waitMs('b')).toBe(0);
  });
});
