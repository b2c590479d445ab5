import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createBatcher, type BatcherOptions } from '../src/index.ts';

/** A batcher whose batches the test can see. The test ends each batch. */
function watched(options: Partial<BatcherOptions<string, string>> = {}) {
  const batches: string[][] = [];
  const ends: (() => void)[] = [];
  const batcher = createBatcher<string, string>({
    maxItems: 100,
    async run(items) {
      batches.push([...items]);
      await new Promise<void>((resolve) => ends.push(resolve));
      return items.map((item) => item.toUpperCase());
    },
    ...options,
  });
  return {
    batcher,
    batches,
    add: (...items: string[]) => Promise.all(items.map((item) => batcher.add(item))),
    /** Ends the oldest batch under way; resolves after the waiting items could start. */
    end: async () => {
      ends.shift()?.();
      await settled();
    },
  };
}
const settled = () => vi.advanceTimersByTimeAsync(0);

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setImmediate', 'setTimeout', 'clearTimeout'] });
});
afterEach(() => vi.useRealTimers());

describe('a batch', () => {
  it('holds the items that were added in one turn of the event loop, and answers each with its own result', async () => {
    const { add, batches, end } = watched();
    const answers = add('a', 'b');
    await settled();
    expect(batches).toEqual([['a', 'b']]);
    await end();
    expect(await answers).toEqual(['A', 'B']);
  });

  it('gathers the items that come while another batch is under way', async () => {
    const { add, batches, end } = watched();
    void add('a');
    await settled();
    void add('b');
    await settled();
    void add('c');
    await settled();
    expect(batches).toEqual([['a']]);
    await end();
    expect(batches).toEqual([['a'], ['b', 'c']]);
  });

  it('has at most the maximum number of items, and not two with the same key', async () => {
    const { add, batches, end } = watched({ maxItems: 2, keys: (item) => (item === 'x' ? [item] : []) });
    void add('x', 'x', 'a', 'b');
    await settled();
    for (let round = 0; round < 3; round += 1) await end();
    expect(batches).toEqual([
      ['x', 'a'],
      ['x', 'b'],
    ]);
  });

  it('that throws rejects all its items; an error for one item rejects only that item', async () => {
    const failing = watched({ run: () => Promise.reject(new Error('gone')) });
    const both = Promise.allSettled(['a', 'b'].map((item) => failing.batcher.add(item)));
    await settled();
    expect(await both).toMatchObject([{ status: 'rejected' }, { status: 'rejected' }]);
    const partly = watched({ run: async () => ['A', new Error('no')] });
    const answers = Promise.allSettled(['a', 'b'].map((item) => partly.batcher.add(item)));
    await settled();
    expect(await answers).toMatchObject([{ value: 'A' }, { status: 'rejected' }]);
  });
});

describe('a batch that lingers', () => {
  const linger = { siblings: 3, ms: 10 };

  it('begins when it is as large as the last batch', async () => {
    const { add, batches, end } = watched({ linger });
    void add('a', 'b', 'c');
    await settled();
    await end();
    void add('d', 'e');
    await settled();
    expect(batches).toHaveLength(1);
    void add('f');
    await settled();
    expect(batches[1]).toEqual(['d', 'e', 'f']);
  });

  it('begins after its time limit, counted from the end of the last batch', async () => {
    const { add, batches, end } = watched({ linger });
    void add('a', 'b', 'c');
    await settled();
    await end();
    await vi.advanceTimersByTimeAsync(6);
    void add('d');
    await vi.advanceTimersByTimeAsync(3);
    expect(batches).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(batches[1]).toEqual(['d']);
  });

  it('lingers only after a large batch, and not when no item came in time', async () => {
    const { add, batches, end } = watched({ linger });
    void add('a', 'b');
    await settled();
    await end();
    void add('c');
    await settled();
    expect(batches[1]).toEqual(['c']);
    await end();
    void add('d', 'e', 'f');
    await settled();
    await end();
    await vi.advanceTimersByTimeAsync(10);
    void add('g');
    await settled();
    expect(batches[3]).toEqual(['g']);
  });

  it('may wait for more items than the last batch, which may have had a single one', async () => {
    const { add, batches, end } = watched({ linger: { siblings: 1, ms: 10, items: 3 } });
    void add('a');
    await settled();
    expect(batches).toEqual([['a']]);
    await end();
    void add('b', 'c');
    await settled();
    expect(batches).toHaveLength(1);
    void add('d');
    await settled();
    expect(batches[1]).toEqual(['b', 'c', 'd']);
  });

  it('does not delay a call of idle', async () => {
    const { add, batcher, batches, end } = watched({ linger });
    void add('a', 'b', 'c');
    await settled();
    await end();
    const answer = add('d');
    const idle = batcher.idle();
    await settled();
    expect(batches[1]).toEqual(['d']);
    await end();
    await idle;
    expect(await answer).toEqual(['D']);
  });
});
