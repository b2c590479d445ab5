import { describe, expect, it } from 'vitest';
import { FairQueue } from '../src/index.ts';

describe('the queue of tenants', () => {
  it('serves tenants in turn, each in the order of its jobs', () => {
    const queue = new FairQueue<string>();
    for (const job of ['a1', 'a2', 'a3', 'b1', 'c1', 'b2']) queue.push(job.charAt(0), job);
    const order: string[] = [];
    while (queue.take((_, job) => order.push(job) > 0) !== undefined);
    expect(order).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
    expect(queue.size).toBe(0);
  });

  it('skips a tenant that may not be served now', () => {
    const queue = new FairQueue<string>();
    for (const job of ['a1', 'a2', 'b1']) queue.push(job.charAt(0), job);
    const taken: string[] = [];
    expect(queue.take((tenant, job) => tenant !== 'a' && taken.push(job) > 0)).toBe('b1');
    expect(queue.take((tenant) => tenant !== 'a')).toBeUndefined();
    expect([taken, queue.sizeOf('a')]).toEqual([['b1'], 2]);
  });

  it('removes a withdrawn job', () => {
    const queue = new FairQueue<string>();
    queue.push('a', 'a1');
    expect([queue.remove('a', 'a1'), queue.remove('a', 'a1'), queue.size]).toEqual([true, false, 0]);
  });
});
