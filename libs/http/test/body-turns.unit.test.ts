import { PresentTenants, ThreadShares } from '@token-vault/batching';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { BodyTurns } from '../src/body-turns.ts';

const large = 640 * 1024;
/** The pause after a large body that was parsed in no time: the work that follows from it takes 10 ms. */
const pauseMs = 40;
let now: number;
let present: PresentTenants;
let turns: BodyTurns;
/** Names of the parsed bodies, in order. */
let parsed: string[];

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  now = 0;
  present = new PresentTenants(() => now);
  turns = new BodyTurns(new ThreadShares(() => now, present));
  parsed = [];
});
afterEach(() => vi.useRealTimers());

const settle = () => new Promise((resolve) => setImmediate(resolve));

/** Sends a body whose parsing takes `takesMs`; returns the function that ends its answer. */
async function bring(
  tenantId: string,
  name: string,
  { size = large, takesMs = 0, applicationId = 'only' } = {},
): Promise<() => void> {
  const { promise: over, resolve: end } = Promise.withResolvers<void>();
  void turns.take({ holder: { tenantId, applicationId }, size, over }, () => {
    parsed.push(name);
    now += takesMs;
  });
  await settle();
  return end;
}

describe('large bodies of one tenant', () => {
  it('are processed together up to 1 MiB; the next one waits for an answer', async () => {
    const end = await bring('a', 'first', { size: 400_000 });
    await bring('a', 'second', { size: 400_000 });
    await bring('a', 'third', { size: 400_000 });
    await vi.advanceTimersByTimeAsync(2 * pauseMs);
    expect(parsed).toEqual(['first', 'second']);
    end();
    await settle();
    expect(parsed).toEqual(['first', 'second', 'third']);
  });

  it('do not wait for an answer that takes longer than a second', async () => {
    const end = await bring('a', 'react');
    await bring('a', 'next');
    expect(parsed).toEqual(['react']);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(parsed).toEqual(['react', 'next']);
    end();
    await bring('a', 'last');
    await vi.advanceTimersByTimeAsync(pauseMs);
    expect(parsed).toEqual(['react', 'next']);
  });

  it('wait after one three times as long as it used the thread, together with the work that follows from its size', async () => {
    const end = await bring('a', 'slow', { takesMs: 10 });
    end();
    await bring('a', 'next');
    await vi.advanceTimersByTimeAsync(30 + pauseMs - 1);
    expect(parsed).toEqual(['slow']);
    await vi.advanceTimersByTimeAsync(1);
    expect(parsed).toEqual(['slow', 'next']);
  });

  it('wait beside other tenants for all that follows from their size: 80 ms for 640 KiB', async () => {
    present.see('b');
    (await bring('a', 'first'))();
    await bring('a', 'next');
    await vi.advanceTimersByTimeAsync(pauseMs + 4 * 80 - 1);
    expect(parsed).toEqual(['first']);
    await vi.advanceTimersByTimeAsync(1);
    expect(parsed).toEqual(['first', 'next']);
  });

  it('do not delay other tenants, or small bodies of the same tenant', async () => {
    await bring('a', 'slow', { takesMs: 50 });
    await bring('a', 'waits');
    await bring('b', 'other');
    await bring('a', 'small', { size: 1_000 });
    expect(parsed).toEqual(['slow', 'other', 'small']);
  });

  it('do not make those of another application wait for their answers, or for their rests', async () => {
    for (const name of ['first', 'second', 'third']) await bring('a', name, { takesMs: 20 });
    await bring('a', 'other', { applicationId: 'other' });
    // The share of the thread for 20 ms, and for what follows.
    await vi.advanceTimersByTimeAsync(60 + pauseMs);
    expect(parsed).toEqual(['first', 'other']);
  });

  it.each([
    ['for one of its application', 'only'],
    ['for the share of the thread', 'other'],
  ])('that wait %s leave when their client goes, and smaller ones behind them begin', async (_name, id) => {
    await bring('a', 'first', { size: 400_000 });
    const client = new AbortController();
    const parse = () => parsed.push('gone');
    const holder = { tenantId: 'a', applicationId: id };
    const never = new Promise<void>(() => undefined);
    const waiting = turns.take({ holder, size: large, over: never, signal: client.signal }, parse);
    await bring('a', 'behind', { size: 400_000 });
    const gone = new Error('the client has gone');
    client.abort(gone);
    await expect(waiting).rejects.toBe(gone);
    await vi.advanceTimersByTimeAsync(pauseMs);
    expect(parsed).toEqual(['first', 'behind']);
  });

  it('are accepted alone at any size, and when the client has disconnected meanwhile', async () => {
    const end = await bring('a', 'whole', { size: 1_048_576 });
    const endOfNext = await bring('a', 'next', { size: 1_048_576 });
    endOfNext();
    end();
    await bring('a', 'last');
    await vi.advanceTimersByTimeAsync(4 * pauseMs);
    expect(parsed).toEqual(['whole', 'next', 'last']);
  });
});
