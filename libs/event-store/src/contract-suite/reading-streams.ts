import { expect, it } from 'vitest';
import type { ReadStreamOptions } from '../port.ts';
import { collect, newStream, texts, type Fixture } from './fixture.ts';
import { noted } from './test-events.ts';

export function describeStreams(fixture: Fixture): void {
  it('finds no events in a stream that does not exist', async () => {
    expect(await collect(fixture.store.readStream(newStream()))).toEqual([]);
  });

  it('reads a stream from any revision', async () => {
    const stream = newStream();
    await fixture.store.append(stream, [noted('a'), noted('b'), noted('c')], 'no-stream');
    expect(texts(await collect(fixture.store.readStream(stream, { from: 1 })))).toEqual(['b', 'c']);
    expect(await collect(fixture.store.readStream(stream, { from: 3 }))).toEqual([]);
  });

  it('reads streams longer than a page, to their end', async () => {
    const stream = newStream();
    const events = Array.from({ length: 2_500 }, (_, index) => noted(`${index}`));
    const { position } = await fixture.store.append(stream, events, 'no-stream');
    const read = await collect(fixture.store.readStream(stream));
    expect(texts(read)).toEqual(events.map((event) => event.data.text));
    expect(read.at(-1)?.position).toBe(position);
  });

  it('reads several streams at once that hold more than a page together, each from its own revision', async () => {
    const streams = Array.from({ length: 6 }, newStream);
    const big = ['a', 'b', 'c'].map((letter) => letter.repeat(400_000));
    for (const stream of streams)
      for (const text of big) await fixture.store.append(stream, [noted(text)], 'any');
    const starts = [...streams, newStream(), ...streams].map((stream, index) => ({
      stream,
      from: index % 4,
    }));
    const read = await Promise.all(
      starts.map(({ stream, from }) => collect(fixture.store.readStream(stream, { from }))),
    );
    expect(read.map((events) => texts(events).map((text) => String(text)[0]))).toEqual(
      starts.map(({ from }, index) => (index === streams.length ? [] : ['a', 'b', 'c'].slice(from))),
    );
  });
  describeRanges(fixture);
  describeManyAtOnce(fixture);
}

function describeRanges(fixture: Fixture): void {
  it('reads a stream backwards, from its end or from any revision, up to the requested number of events', async () => {
    const stream = newStream();
    await fixture.store.append(
      stream,
      ['a', 'b', 'c', 'd'].map((text) => noted(text)),
      'no-stream',
    );
    const read = async (options: ReadStreamOptions) =>
      texts(await collect(fixture.store.readStream(stream, options))).join('');
    expect(await read({ backwards: true })).toBe('dcba');
    expect(await read({ backwards: true, maxCount: 1 })).toBe('d');
    expect(await read({ backwards: true, from: 2 })).toBe('cba');
    expect(await read({ backwards: true, from: 2, maxCount: 2 })).toBe('cb');
    expect(await read({ backwards: true, from: 0, maxCount: 9 })).toBe('a');
    expect(await read({ backwards: true, from: 99 })).toBe('dcba');
    expect(await read({ from: 1, maxCount: 2 })).toBe('bc');
    expect(await read({ maxCount: 9 })).toBe('abcd');
    expect(await collect(fixture.store.readStream(newStream(), { backwards: true }))).toEqual([]);
  });

  it('reads long streams and large events backwards, to any of their events', async () => {
    const [long, large] = [newStream(), newStream()];
    const events = Array.from({ length: 2_500 }, (_, index) => noted(`${index}`));
    await fixture.store.append(long, events, 'no-stream');
    for (const letter of 'abcdef') await fixture.store.append(large, [noted(letter.repeat(900_000))], 'any');
    const backwards = events.map((event) => event.data.text).reverse();
    const read = async (stream: string, options: ReadStreamOptions) =>
      texts(await collect(fixture.store.readStream(stream, { backwards: true, ...options })));
    expect(await read(long, {})).toEqual(backwards);
    expect(await read(long, { maxCount: 1_700 })).toEqual(backwards.slice(0, 1_700));
    expect(await read(long, { from: 1_999, maxCount: 1_000 })).toEqual(backwards.slice(500, 1_500));
    const [all, some] = await Promise.all([read(large, {}), read(large, { from: 4, maxCount: 5 })]);
    expect([all, some].map((found) => found.map((text) => String(text)[0]).join(''))).toEqual([
      'fedcba',
      'edcba',
    ]);
  });
}

function describeManyAtOnce(fixture: Fixture): void {
  it('reads streams in both directions at once', async () => {
    const streams = Array.from({ length: 30 }, newStream);
    for (const stream of streams)
      await fixture.store.append(stream, [noted(`${stream} 0`), noted(`${stream} 1`)], 'any');
    const read = await Promise.all(
      streams.map((stream, index) =>
        collect(fixture.store.readStream(stream, { backwards: index % 2 === 1, maxCount: 1 + (index % 3) })),
      ),
    );
    const both = (stream: string, index: number) => {
      const order = index % 2 === 1 ? [`${stream} 1`, `${stream} 0`] : [`${stream} 0`, `${stream} 1`];
      return order.slice(0, 1 + (index % 3));
    };
    expect(read.map(texts)).toEqual(streams.map(both));
  });

  it.each([{ from: -1 }, { from: 0.5 }, { maxCount: 0 }, { maxCount: 1.5 }])(
    'refuses %o',
    async (options) => {
      await expect(collect(fixture.store.readStream(newStream(), options))).rejects.toBeInstanceOf(TypeError);
    },
  );
}
