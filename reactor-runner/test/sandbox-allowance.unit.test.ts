import { describe, expect, it } from 'vitest';
import { createAllowance } from '../src/sandbox/allowance.ts';

function allowance() {
  const clock = { ms: 5_000 };
  return { clock, ...createAllowance(3, 1_000, () => clock.ms) };
}

describe('an allowance', () => {
  it('gives so much at once, and then one each time', () => {
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

  it('is whole again after a while, and no more than whole', () => {
    const { clock, spend, waitMs } = allowance();
    spend('a');
    clock.ms += 1_000_000;
    for (let i = 0; i < 3; i += 1) {
      expect(waitMs('a')).toBe(0);
      spend('a');
    }
    expect(waitMs('a')).toBe(1_000);
  });

  it('is of each tenant alone', () => {
    const { spend, waitMs } = allowance();
    for (let i = 0; i < 10; i += 1) spend('a');
    expect(waitMs('a')).toBe(8_000);
    expect(waitMs('b')).toBe(0);
  });
});
