import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { ContiguousProgress } from '../src/contiguous.ts';

describe('contiguous progress', () => {
  it('stays before the first unfinished part, also when later parts end', () => {
    const onAdvance = vi.fn();
    const progress = new ContiguousProgress(0, onAdvance);
    const [first, second, third] = [progress.begin(1), progress.begin(2), progress.begin(3)];
    third();
    second();
    expect([progress.reached, progress.unfinished]).toEqual([0, 1]);
    expect(onAdvance).not.toHaveBeenCalled();
    first();
    expect([progress.reached, progress.unfinished]).toEqual([3, 0]);
    expect(onAdvance).toHaveBeenCalledOnce();
  });

  it('passes a place without work, once all places before it are done', () => {
    const progress = new ContiguousProgress(0);
    progress.pass(1);
    expect(progress.reached).toBe(1);
    const done = progress.begin(2);
    progress.pass(5);
    expect(progress.reached).toBe(1);
    done();
    done();
    expect(progress.reached).toBe(5);
  });

  it('counts unfinished places, not finished ones behind them', () => {
    const progress = new ContiguousProgress(0);
    const done = progress.begin(1);
    for (let place = 2; place <= 100; place += 2) {
      progress.begin(place)();
      progress.pass(place + 1);
    }
    expect([progress.reached, progress.unfinished]).toEqual([0, 1]);
    done();
    expect([progress.reached, progress.unfinished]).toEqual([101, 0]);
  });

  it('equals the progress of a list of all begun parts, in any order of ends', () => {
    const order = fc.uniqueArray(fc.nat(19), { minLength: 20, maxLength: 20 });
    fc.assert(
      fc.property(order, fc.array(fc.boolean(), { minLength: 20, maxLength: 20 }), (ends, passes) => {
        const progress = new ContiguousProgress(-1);
        const open = new Set<number>();
        const done = passes.map((isPassed, place) => {
          if (isPassed) progress.pass(place);
          else open.add(place);
          return isPassed ? () => undefined : progress.begin(place);
        });
        for (const place of ends) {
          done[place]?.();
          open.delete(place);
          expect(progress.unfinished).toBe(open.size);
          expect(progress.reached).toBe(Math.min(20, ...open) - 1);
        }
      }),
    );
  });
});
