import { UnknownEventError } from '@token-vault/contracts';
import { describe, expect, it } from 'vitest';
import { EventMissingError, startPosition, type Position } from '../port.ts';
import { collect, newStream, texts, type Fixture } from './fixture.ts';
import { describeStreams } from './reading-streams.ts';
import { laterRegistry, noted, notedLater, recorded } from './test-events.ts';

export function describeReading(fixture: Fixture): void {
  describe('a reader', () => {
    describeStreams(fixture);
    describeContents(fixture);
    describeLog(fixture);
    describeVersions(fixture);
  });
}

function describeContents(fixture: Fixture): void {
  it('gets back exactly what was appended', async () => {
    const stream = newStream();
    const values = [
      'NUL \u0000, quote ", backslash \\, \\u0000, lone surrogate \ud800, 😀, {a,NULL}, line\nend\t\u2028',
      { b: 1, a: [null, true, 1.5e300, -0.1, '', {}], '': 'empty', '\u0000': 'NUL', NULL: 'NULL' },
      JSON.parse('{"__proto__":{"x":1},"10":1,"2":2}'),
      'NULL',
      null,
    ];
    const events = values.map((value) => recorded(value as string));
    await fixture.store.append(stream, events, 'no-stream');
    const read = await collect(fixture.open().readStream(stream));
    expect(read.map((event) => JSON.stringify(event.data))).toEqual(
      events.map((event) => JSON.stringify(event.data)),
    );
    expect(read.map(({ id, type, version, metadata }) => ({ id, type, version, metadata }))).toEqual(
      events.map(({ id, type, version, metadata }) => ({ id, type, version, metadata })),
    );
  });

  it('does not see changes that the caller makes to its event after the append', async () => {
    const stream = newStream();
    const event = noted('as it was');
    await fixture.store.append(stream, [event], 'any');
    event.data.text = 'changed';
    expect(texts(await collect(fixture.store.readStream(stream)))).toEqual(['as it was']);
  });

  it('reads streams whose names hold other scripts, quotes and commas', async () => {
    const names = ['ü,"\\{}', '漢字-😀', "'; drop table event; --", 'NULL'].map(
      (name) => `${newStream()}${name}`,
    );
    for (const name of names) await fixture.store.append(name, [noted(name)], 'no-stream');
    for (const name of names) expect(texts(await collect(fixture.store.readStream(name)))).toEqual([name]);
    const together = await Promise.all(names.map((name) => collect(fixture.store.readStream(name))));
    expect(together.map(texts)).toEqual(names.map((name) => [name]));
  });

  it('reads events of the largest size, alone and in the log', async () => {
    const after = await fixture.store.head();
    const stream = newStream();
    const size = fixture.subject.largestEventBytes ?? 8 * 1024 * 1024;
    for (const letter of ['a', 'b', 'c'])
      await fixture.store.append(stream, [noted(letter.repeat(size))], 'any');
    for (const reading of [fixture.store.readStream(stream), fixture.store.readAll(after)]) {
      const read = await collect(reading);
      expect(read.map((event) => `${event.data.text as string}`.at(-1))).toEqual(['a', 'b', 'c']);
      expect(read.map((event) => `${event.data.text as string}`.length)).toEqual([size, size, size]);
    }
  });
}

function describeLog(fixture: Fixture): void {
  it('reads the log after a position, up to another, in order', async () => {
    const after = await fixture.store.head();
    const [left, right] = [newStream(), newStream()];
    await fixture.store.append(left, [noted('a'), noted('b')], 'any');
    const { position: until } = await fixture.store.append(right, [noted('c')], 'any');
    await fixture.store.append(left, [noted('d')], 'any');
    expect(texts(await collect(fixture.store.readAll(after)))).toEqual(['a', 'b', 'c', 'd']);
    expect(texts(await collect(fixture.store.readAll(after, { until })))).toEqual(['a', 'b', 'c']);
    expect(texts(await collect(fixture.store.readAll(until)))).toEqual(['d']);
    expect(await collect(fixture.store.readAll(until, { until: after }))).toEqual([]);
  });

  it('does not end before the position up to which it reads, where a position counts events', async () => {
    if (!fixture.store.hasDensePositions) return;
    const { position } = await fixture.store.append(newStream(), [noted('a')], 'any');
    const until = String(BigInt(position) + 1n) as Position;
    await expect(collect(fixture.store.readAll(position, { until }))).rejects.toBeInstanceOf(
      EventMissingError,
    );
    expect(await collect(fixture.store.readAll(until, { until }))).toEqual([]);
  });

  it('ends at the head of the time when it began, also when events are appended meanwhile', async () => {
    const after = await fixture.store.head();
    const stream = newStream();
    await fixture.store.append(stream, [noted('a'), noted('b')], 'any');
    const read: unknown[] = [];
    for await (const event of fixture.store.readAll(after)) {
      read.push(event.data.text);
      await fixture.store.append(stream, [noted('later')], 'any');
    }
    expect(read).toEqual(['a', 'b']);
  });

  it('ends without an error when it is aborted', async () => {
    const after = await fixture.store.head();
    await fixture.store.append(newStream(), [noted('a'), noted('b'), noted('c')], 'any');
    const abort = new AbortController();
    const read: unknown[] = [];
    for await (const event of fixture.store.readAll(after, { signal: abort.signal })) {
      read.push(event.data.text);
      abort.abort();
    }
    expect(read).toEqual(['a']);
    expect(await collect(fixture.store.readAll(startPosition, { signal: AbortSignal.abort() }))).toEqual([]);
  });

  it('of another process, or after a restart, sees everything', async () => {
    const after = await fixture.store.head();
    const stream = newStream();
    const writer = fixture.open();
    const { position, revision } = await writer.append(stream, [noted('a'), noted('b')], 'any');
    await writer.close();
    const reader = fixture.open();
    expect(texts(await collect(reader.readAll(after)))).toEqual(['a', 'b']);
    expect(await reader.head()).toBe(position);
    expect(await reader.append(stream, [noted('c')], revision)).toMatchObject({ revision: 2 });
  });

  it('finds each of many streams', async () => {
    const streams = Array.from({ length: 1_500 }, newStream);
    await Promise.all(streams.map((stream) => fixture.store.append(stream, [noted(stream)], 'no-stream')));
    const read = await Promise.all(streams.map((stream) => collect(fixture.store.readStream(stream))));
    expect(read.flatMap(texts)).toEqual(streams);
  });
}

function describeVersions(fixture: Fixture): void {
  it('gets events in their current version', async () => {
    const after = await fixture.store.head();
    const stream = newStream();
    const later = fixture.open(laterRegistry);
    await fixture.store.append(stream, [noted('old')], 'any');
    await later.append(stream, [notedLater('new')], 'any');
    for (const reading of [later.readStream(stream), later.readAll(after)]) {
      const read = await collect(reading);
      expect(read.map(({ version, data }) => ({ version, data }))).toEqual([
        { version: 2, data: { text: 'old', language: 'unknown' } },
        { version: 2, data: { text: 'new', language: 'en' } },
      ]);
    }
  });

  it('gets the events before an unknown event of a later release, then an error', async () => {
    const after = await fixture.store.head();
    const stream = newStream();
    await fixture.store.append(stream, [noted('a'), noted('b')], 'any');
    await fixture.open(laterRegistry).append(stream, [notedLater('new')], 'any');
    for (const reading of [fixture.store.readStream(stream), fixture.store.readAll(after)]) {
      const read: unknown[] = [];
      const refused = (async () => {
        for await (const event of reading) read.push(event.data.text);
      })();
      await expect(refused).rejects.toBeInstanceOf(UnknownEventError);
      expect(read).toEqual(['a', 'b']);
    }
  });
}
