import { describe, expect, it } from 'vitest';
import { CallerQueue } from '../src/index.ts';

const itemOf = (name: string) => ({ name, tenantId: name.charAt(0), caller: name.charAt(1) });
type Item = ReturnType<typeof itemOf>;

function queueOf(names: readonly string[]): { queue: CallerQueue<Item>; items: readonly Item[] } {
  const queue = new CallerQueue<Item>();
  const items = names.map(itemOf);
  items.forEach((item) => queue.push(item));
  return { queue, items };
}

function takeAll(queue: CallerQueue<Item>): string[] {
  const order: string[] = [];
  while (queue.take(({ name }) => order.push(name) > 0) !== undefined);
  return order;
}

describe('the queue of callers', () => {
  it('serves tenants in turn, and the callers of each in turn', () => {
    const { queue } = queueOf(['Aa1', 'Aa2', 'Aa3', 'Ab1', 'Ac1', 'Ba1', 'Ba2']);
    expect(queue.size).toBe(7);
    expect(takeAll(queue)).toEqual(['Aa1', 'Ba1', 'Ab1', 'Ba2', 'Ac1', 'Aa2', 'Aa3']);
    expect(queue.size).toBe(0);
  });

  it('offers the items of other callers when one is not accepted', () => {
    const { queue } = queueOf(['Aa1', 'Aa2', 'Ab1']);
    expect(queue.take(({ caller }) => caller !== 'a')?.name).toBe('Ab1');
    expect(queue.take(({ caller }) => caller !== 'a')).toBeUndefined();
    expect(queue.sizeOf('A')).toBe(2);
  });

  it('removes an item that is withdrawn, once, and all items', () => {
    const { queue, items } = queueOf(['Aa1', 'Ab1', 'Ba1']);
    const [first] = items;
    if (!first) throw new Error('there is no item');
    expect([queue.remove(first), queue.remove(first), queue.size]).toEqual([true, false, 2]);
    expect(queue.clear().map(({ name }) => name)).toEqual(['Ab1', 'Ba1']);
    expect([queue.size, queue.sizeOf('A')]).toEqual([0, 0]);
  });
});
