import { describe, expect, it, vi } from 'vitest';
import { ContiguousProgress } from '../src/contiguous.ts';

describe('contiguous progress', () => {
  it('stays before the first unfinished part, whatever ends behind it', () => {
    const onAdvance = vi.fn();
    const progress = new ContiguousProgress(0, onAdvance);
    const [first, second, third] = [progress.begin(1), progress.begin(2), progress.begin(3)];
    third();
    second();
    expect([progress.reached, progress.ahead]).toEqual([0, 3]);
    expect(onAdvance).not.toHaveBeenCalled();
    first();
    expect([progress.reached, progress.ahead]).toEqual([3, 0]);
    expect(onAdvance).toHaveBeenCalledOnce();
  });

  it('passes what asks for nothing, once everything before it is done', () => {
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

  it('keeps no more for what passes behind an unfinished part than for what was begun there', () => {
    const progress = new ContiguousProgress(0);
    const done = progress.begin(1);
    for (let place = 2; place <= 100; place += 2) {
      progress.begin(place)();
      progress.pass(place + 1);
    }
    expect([progress.reached, progress.ahead]).toEqual([0, 51]);
    done();
    expect([progress.reached, progress.ahead]).toEqual([101, 0]);
  });
});
