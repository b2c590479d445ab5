import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { PresentTenants, ThreadShares, type Following, type Holder } from '../src/index.ts';

let nowMs: number;
let shares: ThreadShares;
let present: PresentTenants;
/** Names of the work that was done, in order. */
let done: string[];

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  nowMs = 0;
  present = new PresentTenants(() => nowMs);
  shares = new ThreadShares(() => nowMs, present);
  done = [];
});
afterEach(() => vi.useRealTimers());

/** By name: the tenant, and after a dot the application. */
function holderOf(name: string): Holder {
  const [tenantId = '', applicationId = 'only'] = name.split('.');
  return { tenantId, applicationId };
}

async function bring(
  holder: string,
  name: string,
  { takesMs = 0, ...following }: Following & { readonly takesMs?: number } = {},
): Promise<void> {
  const work = () => {
    done.push(name);
    nowMs += takesMs;
  };
  void shares.run(holderOf(holder), work, following);
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
    const turn = await shares.begin(holderOf('a'));
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
    const failing = shares.run(holderOf('a'), () => {
      nowMs += 10;
      throw new Error('not JSON');
    });
    await expect(failing).rejects.toThrow('not JSON');
    await bring('a', 'next');
    await vi.advanceTimersByTimeAsync(30);
    expect(done).toEqual(['next']);
  });
});

describe('long work of several applications of a tenant', () => {
  it('is done in their turns, for any number of waiting pieces of one', async () => {
    for (const name of ['1', '2', '3']) await bring('a.x', name, { takesMs: 10 });
    await bring('a.y', 'other', { takesMs: 10 });
    await bring('a.y', 'last');
    await vi.advanceTimersByTimeAsync(4 * 30);
    expect(done).toEqual(['1', '2', 'other', '3', 'last']);
  });

  it('gets a quarter of the time together', async () => {
    await bring('a.x', 'first', { takesMs: 10 });
    await bring('a.y', 'other');
    await vi.advanceTimersByTimeAsync(29);
    expect(done).toEqual(['first']);
    await vi.advanceTimersByTimeAsync(1);
    expect(done).toEqual(['first', 'other']);
  });

  it('waits no longer than for its share beside an application whose single pieces take long', async () => {
    await bring('a.x', 'first', { takesMs: 20 });
    await bring('a.x', 'second', { takesMs: 20 });
    await bring('a.y', 'other');
    await vi.advanceTimersByTimeAsync(59);
    expect(done).toEqual(['first']);
    await vi.advanceTimersByTimeAsync(1);
    expect(done).toEqual(['first', 'other']);
    await vi.advanceTimersByTimeAsync(1_939);
    await bring('a.y', 'again');
    expect(done).toEqual(['first', 'other', 'again']);
    await vi.advanceTimersByTimeAsync(1);
    expect(done).toEqual(['first', 'other', 'again', 'second']);
  });

  it('where single pieces take long: each of eight applications does one, then any number of them get a hundredth of the time', async () => {
    const applications = Array.from({ length: 40 }, (_, index) => `a.${index}`);
    for (const each of applications) await bring(each, each, { takesMs: 20 });
    await vi.advanceTimersByTimeAsync(20_000);
    // One in two seconds, and one of each of eight applications before the others of the tenant wait.
    expect(done).toHaveLength(17);
  });

  it('has turns between the pieces of another one, which then goes on before its own other work', async () => {
    const turn = await shares.begin(holderOf('a.x'));
    await bring('a.y', 'other');
    await bring('a.x', 'later');
    nowMs += 10;
    const next = turn.next().then(() => done.push('next piece'));
    await vi.advanceTimersByTimeAsync(30);
    await next;
    expect(done).toEqual(['other', 'next piece']);
    turn.end();
    await nextTurn();
    expect(done).toEqual(['other', 'next piece', 'later']);
  });
});

describe('work whose client has gone', () => {
  const gone = new Error('the client has gone');

  it('leaves the queue, also one that nothing else waits in, and gets no turn later', async () => {
    const turn = await shares.begin(holderOf('a'));
    const client = new AbortController();
    const waiting = shares.run(holderOf('a'), () => done.push('gone'), undefined, client.signal);
    await nextTurn();
    client.abort(gone);
    await expect(waiting).rejects.toBe(gone);
    turn.end();
    await bring('a', 'next');
    expect(done).toEqual(['next']);
  });

  it('ends between two of its pieces, and gives its turn back once', async () => {
    const client = new AbortController();
    const turn = await shares.begin(holderOf('a'), client.signal);
    await bring('a', 'second', { takesMs: 10 });
    await bring('a', 'third');
    client.abort(gone);
    nowMs += 1;
    await expect(turn.next()).rejects.toBe(gone);
    turn.end();
    await vi.advanceTimersByTimeAsync(3);
    expect(done).toEqual(['second']);
    await vi.advanceTimersByTimeAsync(30);
    expect(done).toEqual(['second', 'third']);
  });

  it('gets no turn when it comes too late to have one', async () => {
    await expect(shares.begin(holderOf('a'), AbortSignal.abort(gone))).rejects.toBe(gone);
    await bring('a', 'next');
    expect(done).toEqual(['next']);
  });

  it('does not hear of its client once it has its turn', async () => {
    const client = new AbortController();
    await shares.run(holderOf('a'), () => done.push('first'), undefined, client.signal);
    client.abort(gone);
    await bring('a', 'next');
    expect(done).toEqual(['first', 'next']);
  });
});

describe('work that follows elsewhere', () => {
  const following = { takesMs: 1, besideOthersMs: 10 };

  it('makes a tenant pause beside others, so that all of it gets a quarter of a processor', async () => {
    present.see('b');
    await bring('a', 'first', following);
    await bring('a', 'second', following);
    await vi.advanceTimersByTimeAsync(39);
    expect(done).toEqual(['first']);
    await vi.advanceTimersByTimeAsync(1);
    expect(done).toEqual(['first', 'second']);
  });

  it('makes no tenant pause that is alone', async () => {
    present.see('a');
    await bring('a', 'first', following);
    await bring('a', 'second', following);
    expect(done).toEqual(['first', 'second']);
  });

  it('is added to the pause for the piece itself', async () => {
    present.see('b');
    await bring('a', 'first', { ...following, takesMs: 5 });
    await bring('a', 'second');
    await vi.advanceTimersByTimeAsync(54);
    expect(done).toEqual(['first']);
    await vi.advanceTimersByTimeAsync(1);
    expect(done).toEqual(['first', 'second']);
  });
});

describe('short work that comes often', () => {
  const paced = async (holder: string, name: string) => {
    void shares.pace(holderOf(holder), 0.5).then(() => done.push(name));
    await nextTurn();
  };

  it('is done at once for a tenant that is alone', async () => {
    present.see('a');
    for (const name of ['first', 'second', 'third']) await paced('a', name);
    expect(done).toEqual(['first', 'second', 'third']);
  });

  it('is spaced beside others, and does not delay theirs', async () => {
    present.see('b');
    for (const name of ['first', 'second', 'third']) await paced('a', name);
    await paced('b', 'other');
    expect(done).toEqual(['first', 'other']);
    await vi.advanceTimersByTimeAsync(2);
    expect(done).toEqual(['first', 'other', 'second']);
    await vi.advanceTimersByTimeAsync(2);
    expect(done).toEqual(['first', 'other', 'second', 'third']);
  });
});
