import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { together } from '../src/index.ts';

interface Running {
  readonly items: readonly string[];
  readonly end: () => void;
  readonly fail: (error: Error) => void;
}

let running: Running[];
let call: (item: string) => Promise<void>;
beforeEach(() => {
  running = [];
  call = together((items: readonly string[]) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    running.push({ items: [...items], end: resolve, fail: reject });
    return promise;
  });
});

const works = () => running.map(({ items }) => items);

describe('calls that come while work is under way', () => {
  it('share the next work, which begins after the present one', async () => {
    const all = Promise.all(['first', 'second', 'third'].map(call));
    await nextTurn();
    expect(works()).toEqual([['first']]);
    running[0]?.end();
    await nextTurn();
    expect(works()).toEqual([['first'], ['second', 'third']]);
    const fourth = call('fourth');
    running[1]?.end();
    await all;
    await nextTurn();
    expect(works().at(-1)).toEqual(['fourth']);
    running[2]?.end();
    await fourth;
  });

  it('all get the error of the work that they share, and no error of the work before it', async () => {
    const first = call('first');
    const shared = Promise.allSettled([call('second'), call('third')]);
    running[0]?.fail(new Error('first failed'));
    await expect(first).rejects.toThrow('first failed');
    await nextTurn();
    running[1]?.fail(new Error('second failed'));
    const reasons = (await shared).map((each) =>
      each.status === 'rejected' ? String(each.reason) : each.status,
    );
    expect(reasons).toEqual(['Error: second failed', 'Error: second failed']);
    await nextTurn();
    const fourth = call('fourth');
    running[2]?.end();
    await fourth;
  });
});

it('a call that comes alone begins at once', async () => {
  for (const item of ['first', 'second']) {
    const done = call(item);
    running.at(-1)?.end();
    await done;
    await nextTurn();
  }
  expect(works()).toEqual([['first'], ['second']]);
});
