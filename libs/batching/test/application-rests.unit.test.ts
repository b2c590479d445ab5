import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ApplicationRests } from '../src/index.ts';

let nowMs: number;
let rests: ApplicationRests;
/** The tenants of the rests that are over, in order. */
let ended: string[];

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  nowMs = 0;
  ended = [];
  rests = new ApplicationRests({ onEnd: (id) => ended.push(id), longestMs: 1_000, nowMs: () => nowMs });
});
afterEach(() => vi.useRealTimers());

const holderOf = (name: string) => ({ tenantId: name.charAt(0), applicationId: name.charAt(1) });
const resting = (...names: string[]) => names.filter((name) => rests.isResting(holderOf(name)));

async function pass(ms: number): Promise<void> {
  nowMs += ms;
  await vi.advanceTimersByTimeAsync(ms);
}

describe('the rest of an application', () => {
  it('delays no other application', async () => {
    rests.rest(holderOf('Ax'), 100);
    expect(resting('Ax', 'Ay', 'Bx')).toEqual(['Ax']);
    await pass(99);
    expect([resting('Ax'), ended]).toEqual([['Ax'], []]);
    await pass(1);
    expect([resting('Ax'), ended]).toEqual([[], ['A']]);
  });

  it('ends at the latest of the ends that were asked for, which work done at the same time has', async () => {
    rests.rest(holderOf('Ax'), 100);
    rests.rest(holderOf('Ax'), 50);
    await pass(60);
    rests.rest(holderOf('Ax'), 50);
    await pass(49);
    expect(resting('Ax')).toEqual(['Ax']);
    await pass(1);
    expect(resting('Ax')).toEqual([]);
  });

  it('is longer by that which is added, and never longer than the longest', async () => {
    rests.extend(holderOf('Ax'), 100);
    rests.extend(holderOf('Ax'), 200);
    await pass(299);
    expect(resting('Ax')).toEqual(['Ax']);
    await pass(1);
    expect(resting('Ax')).toEqual([]);
    rests.extend(holderOf('Ax'), 5_000);
    await pass(1_000);
    expect(resting('Ax')).toEqual([]);
  });

  it('delays the others of its tenant while eight rest, until one of these has rested', async () => {
    for (const name of ['Aa', 'Ab', 'Ac', 'Ad', 'Ae', 'Af', 'Ag']) rests.rest(holderOf(name), 100);
    expect(resting('Ax', 'Bx')).toEqual([]);
    rests.rest(holderOf('Ah'), 100);
    expect(resting('Ax', 'Bx')).toEqual(['Ax']);
    await pass(100);
    expect(resting('Aa', 'Ax')).toEqual([]);
  });

  it('is twice as long beside one of the same tenant', async () => {
    rests.rest(holderOf('Ax'), 100);
    rests.rest(holderOf('Ay'), 100);
    expect(resting('Ax', 'Ay', 'Az', 'Bx')).toEqual(['Ax', 'Ay']);
    await pass(100);
    expect(resting('Ax', 'Ay', 'Az')).toEqual(['Ay']);
    await pass(99);
    expect(resting('Ay')).toEqual(['Ay']);
    await pass(1);
    expect(resting('Ay')).toEqual([]);
  });
});
