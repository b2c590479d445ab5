import { describe, expect, it, vi } from 'vitest';
import { createLanes } from '../src/runs/lanes.ts';

/** Work that notes its name when it begins, and lasts until it is ended. */
function lastingWork() {
  const running: string[] = [];
  const ends = new Map<string, () => void>();
  const work = (name: string) => () =>
    new Promise<void>((resolve) => {
      running.push(name);
      ends.set(name, resolve);
    });
  return { running, ends, work };
}

describe('lanes', () => {
  it('give no tenant more at once than its share, and let none wait for another', async () => {
    const inLane = createLanes(2, 0);
    const { running, ends, work } = lastingWork();
    const all = ['a1', 'a2', 'a3', 'a4', 'b1'].map((name) =>
      inLane({ tenantId: name.charAt(0), applicationId: 'app' }, work(name)),
    );
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

  it('let applications of one tenant take turns, however many tasks one of them has', async () => {
    const inLane = createLanes(2, 0);
    const { running, ends, work } = lastingWork();
    const all = ['a1', 'a2', 'a3', 'a4', 'b1', 'b2'].map((name) =>
      inLane({ tenantId: 'tenant', applicationId: name.charAt(0) }, work(name)),
    );
    for (let ended = 0; ended < all.length; ended += 1) {
      await vi.waitFor(() => expect(running.length).toBeGreaterThan(ended));
      ends.get(running[ended] ?? '')?.();
    }
    await Promise.all(all);
    expect(running).toEqual(['a1', 'a2', 'a3', 'b1', 'a4', 'b2']);
  });

  it('let an application begin its first task at once when another one has all places', async () => {
    const inLane = createLanes(2, 1);
    const { running, ends, work } = lastingWork();
    const all = ['a1', 'a2', 'a3', 'b1', 'b2', 'c1'].map((name) =>
      inLane({ tenantId: 'tenant', applicationId: name.charAt(0) }, work(name)),
    );
    await Promise.resolve();
    expect(running).toEqual(['a1', 'a2', 'b1']);
    for (let ended = 0; ended < all.length; ended += 1) {
      await vi.waitFor(() => expect(running.length).toBeGreaterThan(ended));
      ends.get(running[ended] ?? '')?.();
    }
    await Promise.all(all);
    expect(running).toEqual(['a1', 'a2', 'b1', 'c1', 'a3', 'b2']);
  });

  it('continue after failed work', async () => {
    const inLane = createLanes(1, 0);
    const of = { tenantId: 'a', applicationId: 'app' };
    const failing = inLane(of, () => Promise.reject(new Error('no')));
    const next = inLane(of, () => Promise.resolve());
    await expect(failing).rejects.toThrow('no');
    await next;
  });
});
