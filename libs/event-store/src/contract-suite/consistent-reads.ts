import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { ReadStreamOptions } from '../port.ts';
import { collect, newStream, texts, type Fixture } from './fixture.ts';
import { noted } from './test-events.ts';

/** A read that takes less than a moment is not repeated. */
const overAMoment = () => delay(60);

/** Decides on the streams, by these options, with a write to one of them after the first reading. */
async function decideAround(
  { store }: Fixture,
  options: ReadStreamOptions,
  writtenTo: (streams: readonly string[]) => string,
) {
  const streams = [newStream(), newStream()];
  for (const stream of streams) await store.append(stream, [noted('a'), noted('b')], 'no-stream');
  const read: string[] = [];
  let isWritten = false;
  const decided = await store.consistently(async () => {
    const events = await Promise.all(streams.map((stream) => collect(store.readStream(stream, options))));
    await overAMoment();
    read.push(events.map((each) => texts(each).join('')).join());
    if (!isWritten) await store.append(writtenTo(streams), [noted('c')], 'any');
    isWritten = true;
    return read.length;
  });
  expect(decided).toBe(read.length);
  return read;
}

export function describeConsistentReads(fixture: Fixture): void {
  describe('a decision', () => {
    it('is made again when one of the streams that it has read has a newer event', async () => {
      const second = (streams: readonly string[]) => streams[1] ?? '';
      expect(await decideAround(fixture, {}, second)).toEqual(['ab,ab', 'ab,abc']);
      expect(await decideAround(fixture, { from: 2 }, second)).toEqual([',', ',c']);
      expect(await decideAround(fixture, { backwards: true, maxCount: 1 }, second)).toEqual(['b,b', 'b,c']);
      expect(await decideAround(fixture, { from: 1, maxCount: 2 }, second)).toEqual(['b,b', 'b,bc']);
    });

    it('is made again when a stream begins that it has not found', async () => {
      const { store } = fixture;
      const stream = newStream();
      for (const options of [{}, { backwards: true }]) {
        const name = `${stream}-${Object.keys(options).length}`;
        const read = await store.consistently(async () => {
          const found = texts(await collect(store.readStream(name, options)));
          await overAMoment();
          if (found.length === 0) await store.append(name, [noted('a')], 'no-stream');
          return found;
        });
        expect(read).toEqual(['a']);
      }
    });

    it('is made once when the newer event is in another stream, or after the range that it has read', async () => {
      expect(await decideAround(fixture, {}, newStream)).toHaveLength(1);
      const first = ([stream = '']: readonly string[]) => stream;
      expect(await decideAround(fixture, { maxCount: 1 }, first)).toEqual(['a,a']);
      expect(await decideAround(fixture, { backwards: true, from: 1 }, first)).toEqual(['ba,ba']);
      expect(await decideAround(fixture, { backwards: true }, newStream)).toEqual(['ba,ba']);
    });

    it('counts what it has read first of a stream', async () => {
      const { store } = fixture;
      const stream = newStream();
      await store.append(stream, [noted('a')], 'no-stream');
      const read = await store.consistently(async () => {
        const first = texts(await collect(store.readStream(stream)));
        await overAMoment();
        if (first.length === 1) await store.append(stream, [noted('b')], 'any');
        await collect(store.readStream(stream));
        return first;
      });
      expect(read).toEqual(['a', 'b']);
    });

    it('is looked at as one with the decisions inside it', async () => {
      const { store } = fixture;
      const stream = newStream();
      const read: unknown[][] = [];
      await store.consistently(async () => {
        const inner = await store.consistently(async () => texts(await collect(store.readStream(stream))));
        read.push(inner);
        await overAMoment();
        if (inner.length === 0) await store.append(stream, [noted('a')], 'no-stream');
      });
      expect(read).toEqual([[], ['a']]);
    });

    it('reads again only what has changed, and knows what it has read before', async () => {
      const { store } = fixture;
      const streams = [newStream(), newStream(), newStream()];
      for (const stream of streams) await store.append(stream, [noted('a')], 'no-stream');
      const [, changing = ''] = streams;
      const given: (readonly [number, string | undefined])[] = [];
      let isWritten = false;
      const decided = await store.consistently(async () => {
        const found = streams.map((stream, index) =>
          store.remembered<string>(stream, async (before) => {
            given.push([index, before]);
            return texts(await collect(store.readStream(stream))).join('');
          }),
        );
        const read = await Promise.all(found);
        await overAMoment();
        if (!isWritten) await store.append(changing, [noted('b')], 'any');
        isWritten = true;
        return read;
      });
      expect(decided).toEqual(['a', 'ab', 'a']);
      expect(given).toEqual([
        [0, undefined],
        [1, undefined],
        [2, undefined],
        [1, 'a'],
      ]);
    });

    it('is made again when it ends long after it began to find rights', async () => {
      const { store } = fixture;
      const stream = newStream();
      let attempts = 0;
      const decided = await store.consistently(async (beforeRights) => {
        await collect(store.readStream(stream));
        beforeRights();
        attempts += 1;
        if (attempts === 1) await delay(150);
        return attempts;
      });
      expect(decided).toBeGreaterThan(1);
    });

    it('ends where it always takes long to find rights', async () => {
      const { store } = fixture;
      let attempts = 0;
      const decided = await store.consistently((beforeRights) =>
        // It may be part of another decision.
        store.consistently(async () => {
          beforeRights();
          attempts += 1;
          await delay(250);
          return attempts;
        }),
      );
      expect(decided).toBe(attempts);
      expect(attempts).toBeGreaterThan(2);
    });

    it('counts the earliest of two readings of a stream, also when it ends last', async () => {
      const { store } = fixture;
      const stream = newStream();
      const count = async () => texts(await collect(store.readStream(stream, { backwards: true }))).length;
      let isFirst = true;
      const decided = await store.consistently(async () => {
        const isRead = Promise.withResolvers<void>();
        const slow = store.remembered('slow', async () => {
          const found = await count();
          isRead.resolve();
          await overAMoment();
          return found;
        });
        const quick = store.remembered('quick', async () => {
          await isRead.promise;
          if (isFirst) await store.append(stream, [noted('a')], 'any');
          isFirst = false;
          return count();
        });
        return Promise.all([slow, quick]);
      });
      expect(decided).toEqual([1, 1]);
    });

    it('reads once for all that ask at the same time, and sees a change for each of them', async () => {
      const { store } = fixture;
      const stream = newStream();
      let [readings, attempts] = [0, 0];
      const decided = await store.consistently(async () => {
        const read = () =>
          store.remembered('count', async () => {
            readings += 1;
            return texts(await collect(store.readStream(stream))).length;
          });
        const [one, other] = await Promise.all([read(), store.remembered('around', read)]);
        await overAMoment();
        attempts += 1;
        if (attempts === 1) await store.append(stream, [noted('a')], 'any');
        return [one, other];
      });
      expect([decided, readings]).toEqual([[1, 1], 2]);
    });

    it('sees a change of a stream that it remembers, also in a later attempt', async () => {
      const { store } = fixture;
      const [one, other] = [newStream(), newStream()];
      let attempts = 0;
      const read = (stream: string) =>
        store.remembered(stream, async () => texts(await collect(store.readStream(stream))).length);
      const decided = await store.consistently(async () => {
        const found = [await read(one), await read(other)];
        await overAMoment();
        attempts += 1;
        if (attempts === 1) await store.append(one, [noted('a')], 'any');
        if (attempts === 2) await store.append(other, [noted('a')], 'any');
        return found;
      });
      expect(decided).toEqual([1, 1]);
    });

    it('counts from the third attempt on when it is short, though its streams have newer events again', async () => {
      const { store } = fixture;
      const stream = newStream();
      let attempts = 0;
      const decided = await store.consistently(async () => {
        const found = texts(await collect(store.readStream(stream)));
        attempts += 1;
        if (attempts < 3) await overAMoment();
        await store.append(stream, [noted('a')], 'any');
        return found.length;
      });
      expect([decided, attempts]).toEqual([2, 3]);
    });

    it('is refused as unavailable while its streams change faster than they are read', async () => {
      const { store } = fixture;
      const stream = newStream();
      const deciding = store.consistently(async () => {
        await collect(store.readStream(stream));
        await delay(110);
        await store.append(stream, [noted('a')], 'any');
      });
      await expect(deciding).rejects.toMatchObject({ code: 'event_store_unavailable' });
    });

    it('outside of a decision nothing is remembered', async () => {
      const read = async (before: string | undefined) => `${before ?? 'first'}`;
      expect(await fixture.store.remembered('key', read)).toBe('first');
      expect(await fixture.store.remembered('key', read)).toBe('first');
    });

    it('fails with the error of the function, which runs once then', async () => {
      const { store } = fixture;
      const stream = newStream();
      const deciding = store.consistently(async () => {
        await collect(store.readStream(stream));
        await store.append(stream, [noted('a')], 'no-stream');
        throw new TypeError('refused');
      });
      await expect(deciding).rejects.toThrow('refused');
    });
  });
}
