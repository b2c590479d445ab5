import { UnavailableError } from '@token-vault/contracts';
import type { Pool } from 'pg';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createFairReads } from '../src/fair-reads.ts';

let running: { readonly text: string; readonly end: (error?: Error) => void }[];
const started = () => running.map(({ text }) => text);
const statementOf = (text: string) => ({ text });
/** The number of requests that hold no place at the edge now. */
let outOfTurn = 0;
const app = (tenantId: string, applicationId = 'only') => ({
  principal: { tenant: { id: tenantId }, applicationId },
  outOfTurn: <Result>(wait: () => Promise<Result>) => {
    outOfTurn += 1;
    return wait().finally(() => (outOfTurn -= 1));
  },
});

function slowPool(max: number): Pool {
  const query = (statement: { text: string }) =>
    new Promise((resolve, reject) => {
      const end = (error?: Error) => {
        if (error) reject(error);
        else resolve({ rows: [statement.text] });
      };
      running.push({ text: statement.text, end });
    });
  return { options: { max }, query } as unknown as Pool;
}

const turn = () => vi.waitFor(() => Promise.resolve());
const settle = () => new Promise((resolve) => setImmediate(resolve));
beforeEach(() => {
  running = [];
});
// A statement that still waits would be refused after ten seconds, in the middle of another test.
afterEach(async () => {
  for (let ended = 0; ended < running.length; ended += 1) {
    running[ended]?.end();
    await settle();
  }
});

describe('the lists of tenants', () => {
  // Beside the tenants of other test files in this process, a statement that takes long would let its tenant rest.
  const isAlone = () => true;

  it('have at most half of the connections for one tenant, and leave two free for look-ups', async () => {
    const reads = createFairReads(slowPool(6), { isAlone });
    for (let index = 0; index < 10; index += 1) void reads.of(app('greedy')).query(statementOf('greedy'));
    await turn();
    expect(started()).toHaveLength(3);
    for (let index = 0; index < 10; index += 1) void reads.of(app('other')).query(statementOf('other'));
    await turn();
    expect(started()).toEqual(['greedy', 'greedy', 'greedy', 'other']);
  });

  it('are read in turns of the tenants, for any number of waiting lists of one tenant', async () => {
    const reads = createFairReads(slowPool(6), { isAlone });
    for (let index = 0; index < 50; index += 1) void reads.of(app('greedy')).query(statementOf('greedy'));
    const others = ['second', 'third', 'fourth'];
    for (const name of others) void reads.of(app(name)).query(statementOf(name));
    await turn();
    running[0]?.end();
    running[1]?.end();
    running[2]?.end();
    await vi.waitFor(() => expect(started()).toHaveLength(7));
    expect(started()).toEqual(expect.arrayContaining(others));
  });

  it('are read in turns of the applications of a tenant, for any number of waiting lists of one', async () => {
    const reads = createFairReads(slowPool(6), { isAlone, waitingOfApplication: 50 });
    const read = (id: string) => reads.of(app('one', id)).query(statementOf(id));
    for (let index = 0; index < 53; index += 1) void read('greedy');
    await expect(read('greedy')).rejects.toThrow(UnavailableError);
    void read('other');
    running[0]?.end();
    running[1]?.end();
    await vi.waitFor(() => expect(started()).toHaveLength(5));
    expect(started()).toContain('other');
  });

  it('are not read when their client has gone while they waited', async () => {
    const reads = createFairReads(slowPool(1), { isAlone });
    const first = reads.of(app('one')).query(statementOf('first'));
    const client = new AbortController();
    const waiting = reads.of({ ...app('one'), signal: client.signal }).query(statementOf('gone'));
    const next = reads.of(app('one')).query(statementOf('next'));
    const gone = new Error('the client has gone');
    client.abort(gone);
    await expect(waiting).rejects.toBe(gone);
    running[0]?.end();
    await first;
    await vi.waitFor(() => expect(started()).toEqual(['first', 'next']));
    running[1]?.end();
    await next;
  });

  it('hold no place at the edge while they wait, and until they are read then', async () => {
    const reads = createFairReads(slowPool(1), { isAlone });
    const first = reads.of(app('one')).query(statementOf('first'));
    expect(outOfTurn).toBe(0);
    const second = reads.of(app('one')).query(statementOf('second'));
    const third = reads.of(app('one')).query(statementOf('third'));
    expect(outOfTurn).toBe(2);
    running[0]?.end();
    await first;
    await settle();
    expect([started(), outOfTurn]).toEqual([['first', 'second'], 2]);
    running[1]?.end();
    await second;
    expect(outOfTurn).toBe(1);
    running[2]?.end();
    await third;
    expect(outOfTurn).toBe(0);
  });

  it('return a place when a statement fails', async () => {
    const reads = createFairReads(slowPool(1), { isAlone });
    const failing = reads.of(app('one')).query(statementOf('first'));
    const next = reads.of(app('one')).query(statementOf('second'));
    await turn();
    running[0]?.end(new Error('gone'));
    await expect(failing).rejects.toThrow('gone');
    await vi.waitFor(() => expect(started()).toEqual(['first', 'second']));
    running[1]?.end();
    await expect(next).resolves.toEqual({ rows: ['second'] });
  });

  it('are refused when too many of the tenant wait, and those of others are not', async () => {
    const reads = createFairReads(slowPool(2), { isAlone, waitingOfApplication: 1 });
    void reads.of(app('greedy')).query(statementOf('runs'));
    const waits = reads.of(app('greedy')).query(statementOf('waits'));
    await expect(reads.of(app('greedy')).query(statementOf('refused'))).rejects.toThrow(UnavailableError);
    void reads.of(app('other')).query(statementOf('other'));
    running[0]?.end();
    await vi.waitFor(() => expect(started()).toHaveLength(2));
    running[1]?.end();
    await expect(waits).resolves.toEqual({ rows: ['waits'] });
  });

  it('are refused when their turn comes and their application does not read its answers', async () => {
    const unread: string[] = [];
    const requireRead = ({ applicationId }: { readonly applicationId: string }) => {
      if (unread.includes(applicationId)) throw new UnavailableError('unread');
    };
    const reads = createFairReads(slowPool(6), { isAlone, requireRead });
    const read = (id: string) => reads.of(app('one', id)).query(statementOf(id));
    for (let index = 0; index < 3; index += 1) void read('greedy');
    const waiting = Array.from({ length: 10 }, () => expect(read('greedy')).rejects.toThrow('unread'));
    void read('other');
    await turn();
    unread.push('greedy');
    running[0]?.end();
    running[1]?.end();
    await Promise.all(waiting);
    expect(started()).toEqual(['greedy', 'greedy', 'greedy', 'other']);
  });

  it('are refused when they have waited too long, and then never run', async () => {
    const reads = createFairReads(slowPool(1), { isAlone, waitMs: 1 });
    void reads.of(app('one')).query(statementOf('runs'));
    await expect(reads.of(app('one')).query(statementOf('late'))).rejects.toThrow(/Too many/);
    running[0]?.end();
    await turn();
    expect(started()).toEqual(['runs']);
  });
});

describe('long statements of an application', () => {
  let nowMs = 0;
  let isAlone = false;
  const statement = { text: 'long' };
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    [nowMs, isAlone] = [0, false];
  });
  afterEach(() => vi.useRealTimers());

  const open = () => createFairReads(slowPool(6), { nowMs: () => nowMs, isAlone: () => isAlone });

  /** Ends the statement that began as the given one, after that time. */
  async function end(index: number, tookMs: number): Promise<void> {
    nowMs += tookMs;
    running[index]?.end();
    await settle();
  }

  it('run one by one beside others, and the application rests three times as long after each', async () => {
    const reads = open();
    for (let index = 0; index < 6; index += 1) void reads.of(app('greedy')).query(statement);
    await settle();
    expect(running).toHaveLength(3);
    await end(0, 100);
    await end(1, 0);
    await end(2, 0);
    expect(running).toHaveLength(3);
    await vi.advanceTimersByTimeAsync(299);
    expect(running).toHaveLength(3);
    await vi.advanceTimersByTimeAsync(1);
    expect(running).toHaveLength(4);
    await end(3, 50);
    await vi.advanceTimersByTimeAsync(149);
    expect(running).toHaveLength(4);
    await vi.advanceTimersByTimeAsync(1);
    expect(running).toHaveLength(5);
  });

  it('do not take places of others while the application rests', async () => {
    const reads = open();
    const greedy = ['a', 'b', 'c', 'd'];
    for (const name of greedy) void reads.of(app(name)).query(statement);
    await settle();
    for (const [index] of greedy.entries()) await end(index, 100);
    for (const name of greedy) void reads.of(app(name)).query(statement);
    for (let index = 0; index < 3; index += 1) void reads.of(app('other')).query(statementOf('other'));
    await settle();
    expect(started().slice(4)).toEqual(['other', 'other', 'other']);
  });

  it('are followed by as many as before, once one was short', async () => {
    const reads = open();
    for (let index = 0; index < 6; index += 1) void reads.of(app('once')).query(statement);
    await settle();
    await end(0, 100);
    await end(1, 0);
    await end(2, 0);
    await vi.advanceTimersByTimeAsync(300);
    await end(3, 1);
    expect(running).toHaveLength(6);
  });

  it('go on at once when the tenant is alone', async () => {
    const reads = open();
    isAlone = true;
    for (let index = 0; index < 6; index += 1) void reads.of(app('alone')).query(statement);
    await settle();
    await end(0, 100);
    expect(running).toHaveLength(4);
  });

  it('make the application wait no longer than a statement may take', async () => {
    const reads = open();
    for (let index = 0; index < 4; index += 1) void reads.of(app('slow')).query(statement);
    await settle();
    for (const index of [0, 1, 2]) await end(index, 4_000);
    await vi.advanceTimersByTimeAsync(4_999);
    expect(running).toHaveLength(3);
    await vi.advanceTimersByTimeAsync(1);
    expect(running).toHaveLength(4);
  });

  it('are also short ones whose rows cause long work', async () => {
    const reads = open();
    // Two pages at the same time: their work is added.
    reads.spend(app('pages'), 50);
    reads.spend(app('pages'), 100);
    void reads.of(app('pages')).query(statement);
    void reads.of(app('other')).query(statementOf('other'));
    await settle();
    expect(started()).toEqual(['other']);
    await vi.advanceTimersByTimeAsync(449);
    expect(running).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(running).toHaveLength(2);
  });

  it('do not delay other applications of the tenant', async () => {
    const reads = open();
    const read = (id: string) => void reads.of(app('one', id)).query(statementOf(id));
    for (const id of ['slow', 'slow']) read(id);
    await settle();
    await end(0, 100);
    await end(1, 0);
    for (const id of ['slow', 'other', 'other']) read(id);
    await settle();
    expect(started().slice(2)).toEqual(['other', 'other']);
    reads.spend(app('one', 'pages'), 100);
    read('third');
    await settle();
    expect(started().slice(4)).toEqual(['third']);
    await end(2, 0);
    await vi.advanceTimersByTimeAsync(300);
    expect(started().slice(5)).toEqual(['slow']);
  });

  it('do not include work that is short, or of a tenant that is alone', async () => {
    const reads = open();
    reads.spend(app('small'), 20);
    void reads.of(app('small')).query(statementOf('small'));
    isAlone = true;
    reads.spend(app('alone'), 1_000);
    void reads.of(app('alone')).query(statementOf('alone'));
    await settle();
    expect(started()).toEqual(['small', 'alone']);
  });
});
