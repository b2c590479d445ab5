import type { NewEvent } from '@token-vault/contracts';
import { describe, expect, it } from 'vitest';
import { AppendGroup, type GroupMember } from '../append-group.ts';
import type { AppendResult } from '../port.ts';
import { collect, newStream, texts, type Fixture } from './fixture.ts';
import { noted } from './test-events.ts';

const members = (count: number): GroupMember[] => {
  const group = new AppendGroup(count);
  return Array.from({ length: count }, () => group.join());
};

export function describeGrouping(fixture: Fixture): void {
  const append = (stream: string, event: NewEvent, member: GroupMember | undefined): Promise<AppendResult> =>
    fixture.store.append(stream, [event], 'no-stream', { member });

  describe('appends of a group', () => {
    it('are stored when all have arrived, each with its own result', async () => {
      const [taken, ...free] = Array.from({ length: 30 }, newStream);
      await append(taken ?? '', noted('before'), undefined);
      const group = members(30);
      const late = group.pop();
      const refused = append(taken ?? '', noted('late'), group.pop());
      const stored = free.slice(1).map((stream) => append(stream, noted(stream), group.pop()));
      const last = append(free[0] ?? '', noted(free[0] ?? ''), late);
      await expect(refused).rejects.toMatchObject({ code: 'revision_conflict', actual: 0 });
      const results = await Promise.all([last, ...stored]);
      expect(new Set(results.map(({ position }) => position)).size).toBe(29);
      for (const stream of free)
        expect(texts(await collect(fixture.store.readStream(stream)))).toEqual([stream]);
    });

    it('do not wait for members that have left, nor for a second append of one member', async () => {
      const [one, other] = members(2);
      const streams = [newStream(), newStream(), newStream()] as const;
      const first = append(streams[0], noted('a'), one);
      other?.leave();
      await first;
      await append(streams[1], noted('b'), one);
      await append(streams[2], noted('c'), other);
      for (const stream of streams) expect(await collect(fixture.store.readStream(stream))).toHaveLength(1);
    });

    it('to the same stream are stored one after the other', async () => {
      const stream = newStream();
      const outcomes = await Promise.allSettled(
        members(3).map((member, index) => append(stream, noted(String(index)), member)),
      );
      expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected', 'rejected']);
      expect(await collect(fixture.store.readStream(stream))).toHaveLength(1);
    });

    it('that are repeated with the same ids, all or some of them, give the same answers and store nothing', async () => {
      const given = Array.from({ length: 5 }, (_, index) => [newStream(), noted(String(index))] as const);
      const all = (of: typeof given) => {
        const group = members(of.length);
        return Promise.all(of.map(([stream, event], index) => append(stream, event, group[index])));
      };
      const first = await all(given.slice(0, 3));
      const second = await all(given);
      expect(second.slice(0, 3)).toEqual(first);
      expect(await all(given.toReversed())).toEqual(second.toReversed());
      for (const [stream] of given) expect(await collect(fixture.store.readStream(stream))).toHaveLength(1);
    });
  });
}
