import { describe, expect, it } from 'vitest';
import { keptGenerations, KnownRevocations } from '../src/known-revocations.ts';

const readAt = (generation: number, ...streams: string[]) => ({ generation, streams });

describe('rights that were read', () => {
  const known = new KnownRevocations(7).upTo(10, [
    [8, 'a'],
    [9, 'b'],
    [9, 'c'],
    [10, 'a'],
  ]);

  it('hold while none of their streams is revoked', () => {
    expect(known.leave(readAt(7, 'd'))).toBe(true);
    expect(known.leave(readAt(7))).toBe(true);
    expect(known.leave(readAt(9, 'b', 'c'))).toBe(true);
    expect(known.leave(readAt(10, 'a'))).toBe(true);
  });

  it('end with a revocation of any of their streams', () => {
    expect(known.leave(readAt(7, 'd', 'c'))).toBe(false);
    expect(known.leave(readAt(8, 'b'))).toBe(false);
    expect(known.leave(readAt(9, 'a'))).toBe(false);
  });

  it('end when they were read before the process knew of any, or of a later state of the database', () => {
    expect(known.leave(readAt(6, 'd'))).toBe(false);
    expect(known.leave(readAt(11, 'd'))).toBe(false);
  });

  it('end with a generation that names no caller: it may concern each of them', () => {
    const after = known.upTo(13, [
      [11, 'b'],
      [13, 'b'],
    ]);
    expect(after.leave(readAt(11, 'd'))).toBe(false);
    expect(after.leave(readAt(12, 'd'))).toBe(true);
    expect(after.leave(readAt(12, 'b'))).toBe(false);
  });

  it('end when the generation goes back, as in a database that was restored', () => {
    const restored = known.upTo(8, []);
    expect(restored.leave(readAt(10, 'd'))).toBe(false);
    expect(restored.leave(readAt(8, 'd'))).toBe(true);
  });

  it('end when so many revocations came since that some are forgotten, whomever they concerned', () => {
    let later = known;
    for (let generation = 11; generation <= keptGenerations + 10; generation += 1)
      later = later.upTo(generation, [[generation, `e${generation}`]]);
    expect(later.leave(readAt(10, 'd'))).toBe(true);
    later = later.upTo(keptGenerations + 11, [[keptGenerations + 11, 'b']]);
    expect(later.leave(readAt(10, 'd'))).toBe(false);
    expect(later.leave(readAt(11, 'd'))).toBe(true);
    expect(later.leave(readAt(11, 'b'))).toBe(false);
  });
});
