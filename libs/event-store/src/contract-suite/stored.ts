import type { NewEvent } from '@token-vault/contracts';
import { describe, expect, it } from 'vitest';
import { comparePositions, EventStoreUnavailableError, startPosition, type StoredEvent } from '../port.ts';
import { collect, newStream, type Fixture } from './fixture.ts';
import { laterRegistry, noted, notedLater, recorded } from './test-events.ts';

/** The events as they were written, from which the audit log is made. */
export function describeStored(fixture: Fixture): void {
  describe('a reader of what is stored', () => {
    describeTexts(fixture);
    describeStoredLog(fixture);
    describeStoredStreams(fixture);
  });
}

const written = ({ id, type, version, data, metadata }: NewEvent) => ({
  id,
  type,
  version,
  data: JSON.stringify(data),
  metadata: JSON.stringify(metadata),
});
const text = ({ data }: StoredEvent) => (JSON.parse(data) as { text: string }).text;
const flat = async (batches: AsyncIterable<readonly StoredEvent[]>) => (await collect(batches)).flat();

/** The last events of the log, newest first. */
async function newest(fixture: Fixture, count: number): Promise<StoredEvent[]> {
  const found: StoredEvent[] = [];
  for await (const batch of fixture.store.readStoredBackwards()) {
    expect(batch.length).toBeGreaterThan(0);
    found.push(...batch);
    if (found.length >= count) break;
  }
  return found.slice(0, count);
}

function describeTexts(fixture: Fixture): void {
  it('gets each text as it was written, in both directions, also of events that this release does not know', async () => {
    const after = await fixture.store.head();
    const stream = newStream();
    const events = [
      recorded(
        'NUL \u0000, quote ", backslash \\, lone surrogate \ud800, 😀, \ufeff, \ufffd, line\nend\t\u2028',
      ),
      recorded(JSON.parse('{"__proto__":{"x":1},"10":1,"2":2,"version":7}') as string),
      noted('old'),
    ];
    await fixture.store.append(stream, events, 'no-stream');
    const future = notedLater('of a newer release');
    const { position } = await fixture.open(laterRegistry).append(stream, [future], 2);
    const expected = [...events, future].map((event, revision) => ({ ...written(event), stream, revision }));
    const log = await flat(fixture.store.readStored(after));
    expect(log).toMatchObject(expected);
    expect(log.at(-1)?.position).toBe(position);
    expect(await collect(fixture.store.readStoredStream(stream))).toEqual(log);
    expect(await collect(fixture.store.readStoredStream(stream, { backwards: true }))).toEqual(
      log.toReversed(),
    );
    expect(await newest(fixture, 4)).toEqual(log.toReversed());
  });
}

function describeStoredLog(fixture: Fixture): void {
  it('reads the log between two positions in non-empty batches, until it is aborted', async () => {
    const after = await fixture.store.head();
    const [left, right] = [newStream(), newStream()];
    await fixture.store.append(left, [noted('a'), noted('b')], 'any');
    const { position: until } = await fixture.store.append(right, [noted('c')], 'any');
    await fixture.store.append(left, [noted('d')], 'any');
    expect((await flat(fixture.store.readStored(after))).map(text)).toEqual(['a', 'b', 'c', 'd']);
    expect((await flat(fixture.store.readStored(after, { until }))).map(text)).toEqual(['a', 'b', 'c']);
    expect((await flat(fixture.store.readStored(until))).map(text)).toEqual(['d']);
    expect(await collect(fixture.store.readStored(await fixture.store.head()))).toEqual([]);
    const signal = AbortSignal.abort();
    expect(await collect(fixture.store.readStored(startPosition, { signal }))).toEqual([]);
  });

  it('reads a stretch that is longer than a page, forwards and backwards', async () => {
    const after = await fixture.store.head();
    const events = Array.from({ length: 1_200 }, (_, index) => noted(`${index}`));
    await fixture.store.append(newStream(), events, 'no-stream');
    const forwards = await flat(fixture.store.readStored(after));
    expect(forwards.map(text)).toEqual(events.map(({ data }) => data.text));
    expect((await newest(fixture, 1_200)).toReversed()).toEqual(forwards);
    const order = forwards.map(({ position }, index) =>
      comparePositions(forwards[index - 1]?.position ?? after, position),
    );
    expect(new Set(order)).toEqual(new Set([-1]));
    const dense = forwards.map((_, index) => String(Number(after) + index + 1));
    if (fixture.store.hasDensePositions) expect(forwards.map(({ position }) => position)).toEqual(dense);
  });

  it('of a store that is closed is refused', async () => {
    const store = fixture.open();
    await store.close();
    for (const reading of [store.readStored(startPosition), store.readStoredBackwards()])
      await expect(collect(reading)).rejects.toBeInstanceOf(EventStoreUnavailableError);
    await expect(collect(store.readStoredStream('a'))).rejects.toBeInstanceOf(EventStoreUnavailableError);
  });
}

function describeStoredStreams(fixture: Fixture): void {
  it('finds the last event of each of many streams, and none of a stream that does not exist', async () => {
    const streams = Array.from({ length: 200 }, newStream);
    for (const stream of streams)
      await fixture.store.append(stream, [noted('first'), noted(stream)], 'no-stream');
    const last = await Promise.all(
      [...streams, newStream()].map((stream) =>
        collect(fixture.store.readStoredStream(stream, { backwards: true, maxCount: 1 })),
      ),
    );
    expect(last.map((events) => events.map(text))).toEqual([...streams.map((stream) => [stream]), []]);
  });

  it('reads a range of a stream that is longer than a page', async () => {
    const stream = newStream();
    await fixture.store.append(stream, Array.from({ length: 1_200 }, (_, index) => noted(`${index}`)), 'any'); // prettier-ignore
    const options = { backwards: true, from: 1_100, maxCount: 1_050 };
    const read = await collect(fixture.store.readStoredStream(stream, options));
    expect(read.map(({ revision }) => revision)).toEqual(read.map((_, index) => 1_100 - index));
    expect(read).toHaveLength(1_050);
  });
}
