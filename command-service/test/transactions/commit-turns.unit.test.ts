import type { Position } from '@token-vault/event-store';
import { createRequestContext } from '@token-vault/operations';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CommitTurns } from '../../src/transactions/commit-turns.ts';
import { anyone } from '../tokens/vault.ts';

const large = 1024 * 1024;
/** The commits that were made, in their order. */
let committed: string[];
/** Ends the wait of each read model for the commit. */
let shown: Map<string, () => void>;
/** The read models that were awaited, and for how long. */
let awaited: [name: string | undefined, ms: number][];
let turns: CommitTurns;
/** The number of requests that hold no place at the edge now. */
let outOfTurn: number;

beforeEach(() => {
  vi.useFakeTimers();
  committed = [];
  shown = new Map();
  awaited = [];
  outOfTurn = 0;
  turns = new CommitTurns((position, ms, names) => {
    awaited.push([names.join(), ms]);
    return new Promise((resolve) => shown.set(`${position} ${names.join()}`, () => resolve(true)));
  });
});
afterEach(() => vi.useRealTimers());

const settle = () => vi.advanceTimersByTimeAsync(0);

interface Options {
  readonly tenant?: string;
  readonly bytes?: number;
  readonly principalNow?: () => Promise<undefined>;
}

/** Commits the transaction `name` of an application. Its position is its name. */
async function commit(name: string, application = 'a', options: Options = {}): Promise<string> {
  const { tenant = 'tenant', bytes = large, principalNow } = options;
  const context = createRequestContext({
    principal: anyone({
      tenant: { id: tenant, plan: 'enterprise', settings: {} },
      applicationId: application,
    }),
    traceId: name,
    now: new Date(),
    principalNow,
    outOfTurn: (wait) => {
      outOfTurn += 1;
      return wait().finally(() => (outOfTurn -= 1));
    },
  });
  await turns.run(bytes, context, () => {
    committed.push(name);
    return Promise.resolve(name as Position);
  });
  return name;
}

async function show(name: string, models = ['tokens', 'log', 'log_summary']): Promise<void> {
  for (const model of models) shown.get(`${name} ${model}`)?.();
  await settle();
}

describe('a large commit', () => {
  it('waits until the read models have applied the one before, and its request holds no place meanwhile', async () => {
    await commit('1');
    const next = commit('2');
    await settle();
    expect([committed, outOfTurn]).toEqual([['1'], 1]);
    await show('1', ['tokens', 'log']);
    expect(committed).toEqual(['1']);
    await show('1', ['log_summary']);
    expect(await next).toBe('2');
    expect([committed, outOfTurn]).toEqual([['1', '2'], 0]);
  });

  it('does not wait for small ones, nor these for large ones', async () => {
    for (const name of ['small 1', 'small 2']) await commit(name, 'a', { bytes: 256 * 1024 });
    await commit('large');
    await commit('small 3', 'a', { bytes: 256 * 1024 });
    expect(committed).toEqual(['small 1', 'small 2', 'large', 'small 3']);
    expect(awaited.map(([name]) => name)).toEqual(['tokens', 'log', 'log_summary']);
  });

  it('waits for at most one of each other application and tenant', async () => {
    await commit('a1');
    const all = [
      ...['a2', 'a3', 'a4'].map((name) => commit(name)),
      commit('b1', 'b'),
      commit('other 1', 'o', { tenant: 'other' }),
      commit('other 2', 'o', { tenant: 'other' }),
    ];
    await settle();
    for (const name of ['a1', 'a2', 'other 1', 'b1', 'other 2', 'a3', 'a4']) await show(name);
    await Promise.all(all);
    expect(committed).toEqual(['a1', 'a2', 'other 1', 'b1', 'other 2', 'a3', 'a4']);
  });

  it('is refused, undone, when its turn does not come in 10 s', async () => {
    await commit('1');
    const refused = expect(commit('2')).rejects.toMatchObject({ code: 'unavailable', status: 503 });
    await vi.advanceTimersByTimeAsync(10_000);
    await refused;
    await show('1');
    await commit('3');
    expect(committed).toEqual(['1', '3']);
  });

  it('is refused when 20 of its application wait', async () => {
    await commit('0');
    const waiting = Array.from({ length: 20 }, (_, n) => commit(`${n + 1}`));
    await settle();
    await expect(commit('21')).rejects.toMatchObject({ code: 'unavailable' });
    const other = commit('other', 'b');
    await show('0');
    await show('1');
    expect(await other).toBe('other');
    await Promise.all([vi.advanceTimersByTimeAsync(10_000), Promise.allSettled(waiting)]);
  });

  it('that fails, or whose caller has lost its rights meanwhile, is not waited for', async () => {
    const failing = createRequestContext({ principal: anyone(), traceId: 'f', now: new Date() });
    await expect(turns.run(large, failing, () => Promise.reject(new Error('refused')))).rejects.toThrow(
      'refused',
    );
    const principalNow = () => Promise.reject(new Error('the key is gone'));
    await expect(commit('gone', 'a', { principalNow })).rejects.toThrow('the key is gone');
    await commit('next');
    expect(committed).toEqual(['next']);
  });

  it('of a client that went away while it waited is not made, and gives its turn back', async () => {
    await commit('1');
    const gone = createRequestContext({
      principal: anyone(),
      traceId: 'gone',
      now: new Date(),
      async outOfTurn(wait) {
        await wait();
        throw new Error('the client disconnected');
      },
    });
    const refused = expect(
      turns.run(large, gone, () => commit('gone').then(() => undefined)),
    ).rejects.toThrow('the client disconnected');
    const next = commit('2');
    await show('1');
    await refused;
    await next;
    expect(committed).toEqual(['1', '2']);
  });

  it('of a client that has gone does not wait for its turn', async () => {
    await commit('1');
    const client = new AbortController();
    const principal = anyone();
    const { signal } = client;
    const context = createRequestContext({ principal, traceId: 'gone', now: new Date(), signal });
    const waiting = turns.run(large, context, () => commit('gone').then(() => undefined));
    const gone = new Error('the client has gone');
    client.abort(gone);
    await expect(waiting).rejects.toBe(gone);
    const next = commit('2');
    await show('1');
    await next;
    expect(committed).toEqual(['1', '2']);
  });

  it('awaits each read model for itself, for 30 s at most', async () => {
    await commit('1');
    expect(awaited).toEqual([
      ['tokens', 30_000],
      ['log', 30_000],
      ['log_summary', 30_000],
    ]);
  });
});
