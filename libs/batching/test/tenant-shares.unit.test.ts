import { describe, expect, it } from 'vitest';
import { TenantQueue, TenantShares } from '../src/index.ts';

const of = (applicationId: string, tenantId = 'tenant') => ({ tenantId, applicationId });

describe('the share of a tenant', () => {
  /** Takes as much as the application may have. */
  function fill(shares: TenantShares, applicationId: string): number {
    let taken = 0;
    for (; shares.allows(of(applicationId)); taken += 1) shares.take(of(applicationId));
    return taken;
  }

  it('is never taken whole: each application may hold half of what the others leave', () => {
    const shares = new TenantShares(100);
    expect(['a', 'b', 'c', 'd'].map((each) => fill(shares, each))).toEqual([50, 25, 13, 6]);
    expect([shares.heldBy('tenant'), shares.allows(of('a', 'other'))]).toEqual([94, true]);
    shares.giveBack(of('a'), 50);
    expect([shares.heldBy('tenant'), fill(shares, 'd')]).toEqual([44, 25]);
  });

  it('counts no more for an application than it may hold, where it cannot be refused', () => {
    const shares = new TenantShares(100);
    const exceeding = () => ['a', 'b', 'c'].filter((each) => shares.exceeds(of(each)));
    for (const each of ['a', 'b']) shares.take(of(each), 1_000);
    expect([shares.heldBy('tenant'), shares.allows(of('a')), exceeding()]).toEqual([75, false, ['a', 'b']]);
    expect([shares.allows(of('c'), 14), shares.allows(of('c'), 13)]).toEqual([false, true]);
    for (const each of ['a', 'b']) shares.giveBack(of(each), 1_000);
    expect([shares.heldBy('tenant'), fill(shares, 'a')]).toEqual([0, 50]);
    // It holds more than half of what others leave now, but all of it was allowed.
    expect([fill(shares, 'b'), shares.allows(of('a'), 0), exceeding()]).toEqual([25, false, []]);
  });
});

describe('the queue of tenants and their applications', () => {
  /** An item names its tenant and its application. */
  const holderOf = (item: string) => of(item.charAt(1), item.charAt(0));
  function queueOf(...items: string[]): TenantQueue<string> {
    const queue = new TenantQueue<string>(100);
    for (const item of items) queue.push(holderOf(item), item);
    return queue;
  }
  const order = (queue: TenantQueue<string>): string[] => {
    const taken: string[] = [];
    for (let item = queue.take(() => true); item !== undefined; item = queue.take(() => true))
      taken.push(item);
    return taken;
  };

  it('serves tenants in turn, and the applications of a tenant in its turns', () => {
    const queue = queueOf('Ax1', 'Ax2', 'Ax3', 'Ay1', 'Bx1', 'Bx2', 'Ay2');
    expect(order(queue)).toEqual(['Ax1', 'Bx1', 'Ay1', 'Bx2', 'Ax2', 'Ay2', 'Ax3']);
    expect(queue.size).toBe(0);
  });

  it('skips a tenant that may not be served now', () => {
    const queue = queueOf('Ax1', 'Bx1');
    expect([queue.take((tenantId) => tenantId === 'B'), queue.take((tenantId) => tenantId === 'B')]).toEqual([
      'Bx1',
      undefined,
    ]);
    expect(order(queue)).toEqual(['Ax1']);
  });

  it('offers the items of other applications, and of other tenants, when one is not accepted', () => {
    const queue = queueOf('Ax1', 'Ax2', 'Ay1', 'Bx1');
    const take = (accepted: string) =>
      queue.take(
        () => true,
        (item) => item.includes(accepted),
      );
    expect([take('y'), take('y'), take('B'), take('none')]).toEqual(['Ay1', undefined, 'Bx1', undefined]);
    expect([queue.size, queue.sizeOf('A'), order(queue)]).toEqual([2, 2, ['Ax1', 'Ax2']]);
  });

  it('gives all items back when it is cleared, and has room again', () => {
    const queue = queueOf('Bx1', ...Array.from({ length: 50 }, (_, index) => `Ax${index}`));
    expect([queue.clear().length, queue.size, queue.sizeOf('A')]).toEqual([51, 0, 0]);
    expect(queue.mayWait(holderOf('Ax'))).toBe(true);
  });

  it('has places for other applications, and again for the same one after its items have left', () => {
    const queue = queueOf(...Array.from({ length: 50 }, (_, index) => `Ax${index}`));
    expect(['Ax', 'Ay', 'Bx'].map((each) => queue.mayWait(holderOf(each)))).toEqual([false, true, true]);
    expect([queue.remove(holderOf('Ax'), 'Ax7'), queue.remove(holderOf('Ax'), 'Ax7')]).toEqual([true, false]);
    expect([queue.size, queue.mayWait(holderOf('Ax'))]).toEqual([49, true]);
    expect([order(queue).length, queue.mayWait(holderOf('Ax'))]).toEqual([49, true]);
  });
});
