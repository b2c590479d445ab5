import { describe, expect, it } from 'vitest';
import { createLanes } from '../src/runs/lanes.ts';

describe('lanes', () => {
  it('give no tenant more at once than its share, and let none wait for another', async () => {
    const inLane = createLanes(2);
    const running: string[] = [];
    const ends = new Map<string, () => void>();
    const work = (name: string) => () =>
      new Promise<void>((resolve) => {
        running.push(name);
        ends.set(name, resolve);
      });
    const all = ['a1', 'a2', 'a3', 'a4', 'b1'].map((name) => inLane(name.charAt(0), work(name)));
    await Promise.resolve();
    expect(running).toEqual(['a1', 'a2', 'b1']);
    ends.get('a2')?.();
    await all[1];
    await Promise.resolve();
    expect(running).toEqual(['a1', 'a2', 'b1', 'a3']);
    for (const name of ['a1', 'a3', 'b1']) ends.get(name)?.();
    await Promise.all([all[0], all[2], all[4]]);
    ends.get('a4')?.();
    await all[3];
  });

  it('continue after failed work', async () => {
    const inLane = createLanes(1);
    const failing = inLane('a', () => Promise.reject(new Error('no')));
    const next = inLane('a', () => Promise.resolve());
    await expect(failing).rejects.toThrow('no');
    await next;
  });
});
