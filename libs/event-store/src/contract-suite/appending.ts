import { randomUUID } from 'node:crypto';
import { InvalidEventError, UnknownEventError } from '@token-vault/contracts';
import { describe, expect, it } from 'vitest';
import {
  AppendTooLargeError,
  comparePositions,
  EventStoreUnavailableError,
  maxAppendBytes,
  noRevision,
  RevisionConflictError,
  type ExpectedRevision,
} from '../port.ts';
import { collect, newStream, texts, type Fixture } from './fixture.ts';
import { noted, notedLater } from './test-events.ts';

export function describeAppending(fixture: Fixture): void {
  describe('an append', () => {
    describeExpectations(fixture);
    describeRepeats(fixture);
    describeRefusals(fixture);
    describeClosing(fixture);
  });
}

function describeExpectations(fixture: Fixture): void {
  it('numbers the events of a stream from 0 and answers with the position and revision of the last one', async () => {
    const stream = newStream();
    const first = await fixture.store.append(stream, [noted('a'), noted('b')], 'no-stream');
    const second = await fixture.store.append(stream, [noted('c')], 1);
    expect([first.revision, second.revision]).toEqual([1, 2]);
    const events = await collect(fixture.store.readStream(stream));
    expect(texts(events)).toEqual(['a', 'b', 'c']);
    expect(events.map((event) => event.revision)).toEqual([0, 1, 2]);
    expect(events.map((event) => event.position).slice(1)).toEqual([first.position, second.position]);
    expect(await fixture.store.head()).toBe(second.position);
  });

  it.each<[ExpectedRevision, number]>([
    ['any', 0],
    ['any', 2],
    ['no-stream', 0],
    [noRevision, 0],
    ['exists', 2],
    [1, 2],
  ])('that expects %s succeeds on a stream of %i events', async (expected, count) => {
    const stream = newStream();
    const before = Array.from({ length: count }, (_, index) => noted(`before ${index}`));
    if (count > 0) await fixture.store.append(stream, before, 'no-stream');
    expect(await fixture.store.append(stream, [noted('next')], expected)).toMatchObject({ revision: count });
    expect(await collect(fixture.store.readStream(stream))).toHaveLength(count + 1);
  });

  it.each<[ExpectedRevision, number]>([
    ['exists', 0],
    [0, 0],
    [5, 0],
    ['no-stream', 2],
    [noRevision, 2],
    [0, 2],
    [2, 2],
    [7, 2],
  ])(
    'that expects %s is refused on a stream of %i events, and the error names the revision',
    async (expected, count) => {
      const stream = newStream();
      const before = Array.from({ length: count }, (_, index) => noted(`before ${index}`));
      if (count > 0) await fixture.store.append(stream, before, 'no-stream');
      const refusal = fixture.store.append(stream, [noted('next')], expected);
      await expect(refusal).rejects.toBeInstanceOf(RevisionConflictError);
      await expect(refusal).rejects.toMatchObject({ stream, actual: count - 1 });
      expect(await collect(fixture.store.readStream(stream))).toHaveLength(count);
    },
  );

  it('moves the head, whichever stream it is for', async () => {
    const first = await fixture.store.append(newStream(), [noted('a')], 'any');
    const second = await fixture.store.append(newStream(), [noted('b')], 'any');
    expect(comparePositions(first.position, second.position)).toBe(-1);
  });
}

function describeRepeats(fixture: Fixture): void {
  it('that is repeated with the same ids answers as before and stores nothing', async () => {
    const stream = newStream();
    const created = [noted('a'), noted('b')];
    const changed = [noted('c'), noted('d')];
    const first = await fixture.store.append(stream, created, 'no-stream');
    const second = await fixture.store.append(stream, changed, 1);
    await fixture.store.append(stream, [noted('e')], 3);
    expect(await fixture.store.append(stream, created, 'no-stream')).toEqual(first);
    expect(await fixture.store.append(stream, changed, 1)).toEqual(second);
    expect(await fixture.open().append(stream, changed, 1)).toEqual(second);
    expect(texts(await collect(fixture.store.readStream(stream)))).toEqual(['a', 'b', 'c', 'd', 'e']);
  });

  it('that is sent several times at once is stored once', async () => {
    const stream = newStream();
    const events = [noted('a'), noted('b')];
    const appends = [fixture.store, fixture.open()].flatMap((store) =>
      Array.from({ length: 10 }, () => store.append(stream, events, 'no-stream')),
    );
    const positions = (await Promise.all(appends)).map((result) => result.position);
    expect(new Set(positions).size).toBe(1);
    expect(await collect(fixture.store.readStream(stream))).toHaveLength(2);
  });

  it('is a conflict when only some of its ids are stored, or they are in another order or at another revision', async () => {
    const stream = newStream();
    const [a, b, c] = [noted('a'), noted('b'), noted('c')];
    await fixture.store.append(stream, [a, b], 'no-stream');
    const conflict = expect.objectContaining({ code: 'revision_conflict', actual: 1 }) as unknown;
    await expect(fixture.store.append(stream, [a, b, c], 'no-stream')).rejects.toEqual(conflict);
    await expect(fixture.store.append(stream, [a, c], 'no-stream')).rejects.toEqual(conflict);
    await expect(fixture.store.append(stream, [b, a], 'no-stream')).rejects.toEqual(conflict);
    await expect(fixture.store.append(stream, [b], 'no-stream')).rejects.toEqual(conflict);
    expect(await collect(fixture.store.readStream(stream))).toHaveLength(2);
  });
}

function describeRefusals(fixture: Fixture): void {
  it('with an invalid event stores none of its events', async () => {
    const stream = newStream();
    const untyped = { ...noted('a'), data: { text: 5 } };
    const withoutTenant = { ...noted('a'), metadata: { ...noted('a').metadata, tenant_id: 'nobody' } };
    for (const invalid of [untyped, withoutTenant, noted('a', 'no-uuid')]) {
      await expect(fixture.store.append(stream, [noted('fine'), invalid], 'any')).rejects.toBeInstanceOf(
        InvalidEventError,
      );
    }
    await expect(fixture.store.append(stream, [notedLater('a')], 'any')).rejects.toBeInstanceOf(
      UnknownEventError,
    );
    expect(await collect(fixture.store.readStream(stream))).toEqual([]);
  });

  it('that is malformed is a TypeError', async () => {
    const event = noted('a');
    for (const name of ['', '$system', 'a\u0000b', 'a\nb', '\ud800', 'x'.repeat(513)]) {
      await expect(fixture.store.append(name, [event], 'any')).rejects.toBeInstanceOf(TypeError);
    }
    for (const expected of [-2, 1.5, NaN, 2 ** 31]) {
      await expect(fixture.store.append(newStream(), [event], expected)).rejects.toBeInstanceOf(TypeError);
    }
    await expect(fixture.store.append(newStream(), [], 'any')).rejects.toBeInstanceOf(TypeError);
  });

  it('whose events are too large together is refused', async () => {
    const stream = newStream();
    const half = 'x'.repeat(maxAppendBytes / 2);
    const refusal = fixture.store.append(stream, [noted(half), noted(half)], 'any');
    await expect(refusal).rejects.toBeInstanceOf(AppendTooLargeError);
    expect(await collect(fixture.store.readStream(stream))).toEqual([]);
  });

  it('that is refused does not affect other appends of the same moment', async () => {
    const taken = newStream();
    await fixture.store.append(taken, [noted('a')], 'no-stream');
    const free = Array.from({ length: 20 }, newStream);
    const results = await Promise.allSettled(
      free.flatMap((stream) => [
        fixture.store.append(stream, [noted(stream)], 'no-stream'),
        fixture.store.append(taken, [noted(stream)], 'no-stream'),
        fixture.store.append(stream, [{ ...noted(stream), data: {} }], 'any'),
        fixture.store.append(newStream(), [noted(stream)], 'exists'),
      ]),
    );
    const outcomes = results.map((result) => result.status === 'fulfilled');
    expect(outcomes).toEqual(free.flatMap(() => [true, false, false, false]));
    expect(texts(await collect(fixture.store.readStream(taken)))).toEqual(['a']);
  });
}

function describeClosing(fixture: Fixture): void {
  it('to a closed store is refused as unavailable', async () => {
    const store = fixture.open();
    await store.append(newStream(), [noted('a')], 'any');
    await store.close();
    const late = store.append(newStream(), [noted('b', randomUUID())], 'any');
    await expect(late).rejects.toBeInstanceOf(EventStoreUnavailableError);
    await expect(store.head()).rejects.toBeInstanceOf(EventStoreUnavailableError);
  });

  it('that was under way when its store closed is stored', async () => {
    const store = fixture.open();
    const stream = newStream();
    const appends = Array.from({ length: 10 }, (_, index) =>
      store.append(stream, [noted(`${index}`)], 'any'),
    );
    await store.close();
    await Promise.all(appends);
    expect(await collect(fixture.store.readStream(stream))).toHaveLength(10);
  });
}
