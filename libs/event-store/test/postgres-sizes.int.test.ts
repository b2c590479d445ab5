import { startPosition, type EventStore, type StoredEvent } from '@token-vault/event-store';
import { createPostgresEventStore } from '@token-vault/event-store/postgres';
import type { TestDatabase } from '@token-vault/test-support';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { collect } from '../src/contract-suite/fixture.ts';
import { asSuiteStore, noted, testRegistry } from '../src/contract-suite/test-events.ts';
import { createTestLog, withClient } from './postgres-log.ts';

let database: TestDatabase;
let store: EventStore;
const streams = ['s', 't', 'u'];

beforeAll(async () => {
  database = await createTestLog();
  store = createPostgresEventStore({
    connection: { connectionString: database.url },
    registry: testRegistry,
  });
  for (const stream of streams)
    await asSuiteStore(store).append(stream, [noted('older'), noted('newest')], 'any');
});
afterAll(async () => {
  await store.close();
  await database.drop();
});

const revisionsOf = async (...read: Parameters<EventStore['readStream']>): Promise<number[]> =>
  (await collect(store.readStoredStream(...read))).map(({ revision }) => revision);

/** In one turn, so that one statement reads all streams. */
const ofEach = (range: Parameters<EventStore['readStream']>[1]): Promise<number[][]> =>
  Promise.all(streams.map((stream) => revisionsOf(stream, range)));

/** Of the events of the log, in its order. Every size is tried for the first four, and the last two have one of them. */
const forgeries: number[][] = [-2_000_000_000, 0, 5_000_000, 2_147_483_647].reduce<number[][]>(
  (found, _, place, sizes) => found.flatMap((before) => sizes.map((size) => [...before, size])),
  [[]],
);

const positionsOf = async (read: AsyncIterable<readonly StoredEvent[]>): Promise<string[]> =>
  (await collect(read)).flat().map(({ position }) => position);

async function read() {
  const [forwards, backwards, newest] = await Promise.all([
    ofEach({}),
    ofEach({ backwards: true }),
    ofEach({ backwards: true, maxCount: 1 }),
  ]);
  const log = await positionsOf(store.readStored(startPosition));
  const newestFirst = await positionsOf(store.readStoredBackwards());
  return { forwards, backwards, newest, log, newestFirst };
}

it('no size that a writer of the database puts beside an event leaves an event out of a read', async () => {
  await withClient(database.url, async (client) => {
    await client.query('alter table event_store.event disable trigger append_only');
    for (const sizes of forgeries) {
      await client.query(
        'update event_store.event set bytes = ($1::integer[])[1 + (position - 1) % cardinality($1)]',
        [sizes],
      );
      expect(await read(), `sizes ${String(sizes)}`).toEqual(expected);
    }
  });
});

const expected: Awaited<ReturnType<typeof read>> = {
  forwards: streams.map(() => [0, 1]),
  backwards: streams.map(() => [1, 0]),
  newest: streams.map(() => [1]),
  log: ['1', '2', '3', '4', '5', '6'],
  newestFirst: ['6', '5', '4', '3', '2', '1'],
};
