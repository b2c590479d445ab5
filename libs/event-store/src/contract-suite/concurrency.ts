import { describe, expect, it, vi } from 'vitest';
import {
  comparePositions,
  EventStoreUnavailableError,
  RevisionConflictError,
  type AppendResult,
  type Position,
} from '../port.ts';
import { collect, newStream, runSubscription, texts, type Fixture } from './fixture.ts';
import { noted, type SuiteEvent, type SuiteStore } from './test-events.ts';

export function describeConcurrency(fixture: Fixture): void {
  describe('many writers', () => {
    describeOrder(fixture);
    describeNewcomers(fixture);
    describeRaces(fixture);
  });
}

function describeOrder(fixture: Fixture): void {
  it('sixteen in two processes: subscribers get every event once, in the order of the log and of each stream', async () => {
    const stores = [fixture.open(), fixture.open()];
    const after = await fixture.store.head();
    const tails = stores.flatMap((store) => [
      runSubscription(store, after),
      runSubscription(store, after, { maxBatch: 7, onBatch: () => new Promise(setImmediate) }),
    ]);
    const shared = [newStream(), newStream()];
    const results = await Promise.all(
      Array.from({ length: 16 }, (_, writer) =>
        writeMany(stores[writer % 2] as SuiteStore, `${writer}`, shared),
      ),
    );
    const head = await fixture.store.head();
    const log = await collect(fixture.store.readAll(after));
    checkOrder(log);
    expect(texts(log).toSorted()).toEqual(results.flatMap(({ written }) => written).toSorted());
    for (const { stream, position, revision, last } of results.flatMap(({ answers }) => answers)) {
      const stored = log.find((event) => event.stream === stream && event.revision === revision);
      expect(stored?.data.text).toBe(last);
      // Appends to the shared streams may have been stored as one.
      const told = log.find((event) => event.position === position);
      if (shared.includes(stream)) expect(told?.stream).toBe(stream);
      else expect(told).toBe(stored);
      expect(comparePositions(position, stored?.position ?? position)).toBeGreaterThanOrEqual(0);
    }
    await vi.waitUntil(() => tails.every((tail) => tail.batches.at(-1)?.position === head), {
      timeout: 20_000,
    });
    const order = log.map((event) => event.position);
    for (const tail of tails) expect(tail.events.map((event) => event.position)).toEqual(order);
  });
}

function describeNewcomers(fixture: Fixture): void {
  it('while subscribers come and go: each subscriber gets exactly the events after the head at its start', async () => {
    const store = fixture.open();
    const before = await fixture.store.head();
    let isOver = false;
    const writing = Array.from({ length: 4 }, async () => {
      while (!isOver) await fixture.store.append(newStream(), [noted('a')], 'any');
    });
    const subscribing = Array.from({ length: 3 }, async () => {
      const seen: { after: Position; first: Position | undefined }[] = [];
      while (seen.length < 15) seen.push(await firstAfterHead(store));
      return seen;
    });
    const seen = (await Promise.all(subscribing).finally(() => (isOver = true))).flat();
    await Promise.all(writing);
    const log = await collect(fixture.store.readAll(before));
    for (const { after, first } of seen) {
      expect(first).toBe(log.find((event) => comparePositions(event.position, after) > 0)?.position);
    }
  });
}

/** The first event that a subscriber at the head gets. */
async function firstAfterHead(store: SuiteStore): Promise<{ after: Position; first: Position | undefined }> {
  const after = await store.head();
  for await (const { events } of store.subscribe(after, new AbortController().signal)) {
    if (events[0]) return { after, first: events[0].position };
  }
  return { after, first: undefined };
}

/** Appends to a stream of its own by revision, and to the shared streams without an expectation. */
async function writeMany(store: SuiteStore, writer: string, shared: readonly string[]) {
  const own = newStream();
  const written: string[] = [];
  const answers: (AppendResult & { stream: string; last: string })[] = [];
  let revision = -1;
  for (let round = 0; round < 40; round++) {
    const names = Array.from({ length: 1 + (round % 3) }, (_, index) => `${writer} ${round} ${index}`);
    const isOwn = round % 2 === 0;
    const stream = isOwn ? own : (shared[round % shared.length] as string);
    const answer = await store.append(
      stream,
      names.map((name) => noted(name)),
      isOwn ? revision : 'any',
    );
    if (isOwn) ({ revision } = answer);
    written.push(...names);
    answers.push({ ...answer, stream, last: names.at(-1) as string });
  }
  return { written, answers };
}

/** Positions ascend, each stream's revisions have no hole, and the events of one append are neighbours. */
function checkOrder(log: readonly SuiteEvent[]): void {
  const revisions = new Map<string, number>();
  log.forEach((event, index) => {
    const before = log[index - 1];
    if (before) expect(comparePositions(before.position, event.position)).toBe(-1);
    expect(event.revision).toBe((revisions.get(event.stream) ?? -1) + 1);
    revisions.set(event.stream, event.revision);
    const [writer, round, nth] = (event.data.text as string).split(' ');
    if (nth !== '0') expect(before?.data.text).toBe(`${writer} ${round} ${Number(nth) - 1}`);
  });
}

function describeRaces(fixture: Fixture): void {
  it('that all create one stream: one succeeds, and the errors of the others name its revision', async () => {
    const stores = [fixture.open(), fixture.open()];
    const stream = newStream();
    const results = await Promise.allSettled(
      Array.from({ length: 16 }, (_, writer) =>
        (stores[writer % 2] as SuiteStore).append(stream, [noted('a'), noted('b')], 'no-stream'),
      ),
    );
    const refusals = results.flatMap((result) =>
      result.status === 'rejected' ? [result.reason as unknown] : [],
    );
    expect(refusals).toHaveLength(15);
    for (const refusal of refusals) {
      expect(refusal).toBeInstanceOf(RevisionConflictError);
      expect(refusal).toMatchObject({ stream, expected: 'no-stream', actual: 1 });
    }
    expect(await collect(fixture.store.readStream(stream))).toHaveLength(2);
  });

  it('that repeat with the revision of the conflict all succeed, once each', async () => {
    const stores = [fixture.open(), fixture.open()];
    const stream = newStream();
    const names = Array.from({ length: 16 }, (_, writer) => `${writer}`);
    await Promise.all(
      names.map((name, writer) => appendInTurn(stores[writer % 2] as SuiteStore, stream, name)),
    );
    expect(texts(await collect(fixture.store.readStream(stream))).toSorted()).toEqual(names.toSorted());
  });

  it('whose connections are cut repeat their appends, and each is stored once', async (context) => {
    const { cutConnections } = fixture.subject;
    if (!cutConnections) return context.skip('this store has no connections');
    const store = fixture.open();
    const streams = Array.from({ length: 8 }, newStream);
    const rounds = 60;
    let done = 0;
    const writing = streams.map(async (stream) => {
      for (let round = 0; round < rounds; round++) {
        await appendUntilAnswered(store, stream, `${round}`, round - 1);
        done++;
      }
    });
    for (const mark of [50, 100, 150, 200, 250, 300, 350]) {
      await vi.waitUntil(() => done >= mark, { timeout: 20_000, interval: 1 });
      await cutConnections();
    }
    await Promise.all(writing);
    for (const stream of streams) {
      const expected = Array.from({ length: rounds }, (_, round) => `${round}`);
      expect(texts(await collect(fixture.open().readStream(stream)))).toEqual(expected);
    }
  });
}

async function appendInTurn(store: SuiteStore, stream: string, name: string): Promise<void> {
  const event = noted(name);
  for (let revision = -1; ;) {
    try {
      await store.append(stream, [event], revision);
      return;
    } catch (error) {
      if (!(error instanceof RevisionConflictError)) throw error;
      revision = error.actual;
    }
  }
}

/** Repeats the append with the same ids and expectation until there is an answer, like a caller that must know the outcome. */
async function appendUntilAnswered(
  store: SuiteStore,
  stream: string,
  name: string,
  revision: number,
): Promise<void> {
  const event = noted(name);
  for (;;) {
    try {
      await store.append(stream, [event], revision);
      return;
    } catch (error) {
      if (!(error instanceof EventStoreUnavailableError)) throw error;
    }
  }
}
