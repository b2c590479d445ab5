import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ThreadShares, type Following } from '../src/index.ts';

let nowMs: number;
let shares: ThreadShares;
/** Names of the work that was done, in order. */
let done: string[];

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  nowMs = 0;
  shares = new ThreadShares(() => nowMs);
  done = [];
});
afterEach(() => vi.useRealTimers());

async function bring(
  tenantId: string,
  name: string,
  { takesMs = 0, ...following }: Following & { readonly takesMs?: number } = {},
): Promise<void> {
  const work = () => {
    done.push(name);
    nowMs += takesMs;
  };
  void shares.run(tenantId, work, following);
  await nextTurn();
}

describe('long work of one tenant', () => {
  it('gets a quarter of the time, including the work that it starts', async () => {
    await bring('a', 'first', { takesMs: 10, timesAsLong: 4 });
    await bring('a', 'second', { takesMs: 10 });
    await vi.advanceTimersByTimeAsync(149);
    expect(done).toEqual(['first']);
    await vi.advanceTimersByTimeAsync(1);
    expect(done).toEqual(['first', 'second']);
  });

  it('pauses also for the work that follows from it, however short it was itself', async () => {
    await bring('a', 'first', { takesMs: 1, ms: 9 });
    await bring('a', 'second', { takesMs: 1, timesAsLong: 3 });
    await vi.advanceTimersByTimeAsync(38);
    expect(done).toEqual(['first']);
    await vi.advanceTimersByTimeAsync(1);
    expect(done).toEqual(['first', 'second']);
    await bring('a', 'third');
    await vi.advanceTimersByTimeAsync(10);
    expect(done).toEqual(['first', 'second']);
    await vi.advanceTimersByTimeAsync(1);
    expect(done).toEqual(['first', 'second', 'third']);
  });

  it('gets a hundredth of the time where a single piece takes long', async () => {
    await bring('a', 'first', { takesMs: 20 });
    await bring('a', 'second');
    await bring('b', 'other');
    await vi.advanceTimersByTimeAsync(1_999);
    expect(done).toEqual(['first', 'other']);
    await vi.advanceTimersByTimeAsync(1);
    expect(done).toEqual(['first', 'other', 'second']);
  });

  it('gets a quarter where it was in pieces, which others may have worked between', async () => {
    const turn = await shares.begin('a');
    nowMs += 20;
    turn.end();
    await bring('a', 'next');
    await vi.advanceTimersByTimeAsync(59);
    expect(done).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(done).toEqual(['next']);
  });

  it('is done in the order of its arrival, one piece at a time', async () => {
    for (const name of ['first', 'second', 'third']) await bring('a', name, { takesMs: 10 });
    expect(done).toEqual(['first']);
    await vi.advanceTimersByTimeAsync(30);
    expect(done).toEqual(['first', 'second']);
    await vi.advanceTimersByTimeAsync(30);
    expect(done).toEqual(['first', 'second', 'third']);
  });

  it('does not pause after work that was short', async () => {
    await bring('a', 'first', { takesMs: 2 });
    await bring('a', 'second');
    expect(done).toEqual(['first', 'second']);
  });

  it('does not delay the work of other tenants', async () => {
    await bring('a', 'first', { takesMs: 1_000 });
    await bring('b', 'other');
    expect(done).toEqual(['first', 'other']);
  });

  it('continues after work that failed', async () => {
    const failing = shares.run('a', () => {
      nowMs += 10;
      throw new Error('not JSON');
    });
    await expect(failing).rejects.toThrow('not JSON');
    await bring('a', 'next');
    await vi.advanceTimersByTimeAsync(30);
    expect(done).toEqual(['next']);
  });
});
