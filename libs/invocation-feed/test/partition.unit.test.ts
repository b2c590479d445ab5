import { describe, expect, it } from 'vitest';
import { Partition } from '../src/kafka/partition.ts';

/** Messages 10 to 14 are taken, and those before `done` are done and acknowledged. */
function taken(done: bigint): Partition {
  const partition = new Partition(10n);
  for (let offset = 10n; offset < 15n; offset += 1n) {
    const end = partition.take(offset);
    if (offset < done) end?.();
  }
  partition.confirm(done);
  return partition;
}

describe('a partition after a rebalance', () => {
  it('continues when the group reads from the first unfinished message', () => {
    const partition = taken(12n);
    expect(partition.resumeAt(12n)).toBe(true);
    expect(partition.take(14n)).toBeUndefined();
    expect(partition.uncommitted).toBeUndefined();
  });

  it('acknowledges again an offset that the broker does not have', () => {
    const partition = taken(13n);
    expect(partition.uncommitted).toBeUndefined();
    expect(partition.resumeAt(11n)).toBe(true);
    expect(partition.uncommitted).toBe(13n);
  });

  it('acknowledges no offset that another member has acknowledged, and none after an unfinished message', () => {
    const partition = new Partition(10n);
    const ends = [10n, 11n].map((offset) => partition.take(offset));
    expect(partition.resumeAt(15n)).toBe(true);
    const last = partition.take(15n);
    ends[0]?.();
    last?.();
    expect(partition.uncommitted).toBeUndefined();
    ends[1]?.();
    expect(partition.uncommitted).toBe(16n);
  });

  it('starts again when the group went back to messages that were not taken here', () => {
    expect(taken(12n).resumeAt(9n)).toBe(false);
  });
});
