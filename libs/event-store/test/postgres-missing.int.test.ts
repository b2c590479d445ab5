import { startPosition, type EventStore } from '@token-vault/event-store';
import { createPostgresEventStore } from '@token-vault/event-store/postgres';
import type { TestDatabase } from '@token-vault/test-support';
import { beforeEach, expect, it } from 'vitest';
import { asSuiteStore, noted, testRegistry } from '../src/contract-suite/test-events.ts';
import { createTestLog, withClient } from './postgres-log.ts';

let database: TestDatabase;
let store: EventStore;

beforeEach(async () => {
  database = await createTestLog();
  store = open();
  return async () => {
    await store.close();
    await database.drop();
  };
});

const open = () =>
  createPostgresEventStore({
    connection: { connectionString: database.url },
    registry: testRegistry,
    pollMs: 20,
  });

const append = (text = 'x') => asSuiteStore(store).append('s', [noted(text)], 'any');

/** As a writer of the database who leaves triggers out. */
const moveHead = (by: number): Promise<unknown> =>
  withClient(database.url, (client) =>
    client.query(
      `set session_replication_role = replica; update event_store.head set position = position + ${by}`,
    ),
  );

/** The positions that the reading gives, and the error that ends it. */
async function readingOf(read: AsyncIterable<{ readonly position: string }>) {
  const positions: string[] = [];
  try {
    for await (const { position } of read) positions.push(position);
  } catch (error) {
    return { positions, error: (error as Error).message };
  }
  return { positions };
}

async function* subscribedTo(count: number, from = store) {
  const ending = new AbortController();
  let seen = 0;
  for await (const { events } of from.subscribe(startPosition, ending.signal))
    for (const event of events) {
      yield event;
      if (++seen === count) ending.abort();
    }
}

it('a reading whose end lies beyond the head that it finds is an error, and not the end of the log', async () => {
  for (const text of ['a', 'b', 'c']) await append(text);
  const until = await store.head();
  await moveHead(-1);
  expect(await readingOf(store.readAll(startPosition, { until }))).toEqual({
    positions: ['1', '2'],
    error: 'the log has no event at position 3',
  });
});

it('a reader and a subscriber pass over no position without an event, and go on when the event is there', async () => {
  await append('a');
  await moveHead(1);
  await append('c');
  const stopped = { positions: ['1'], error: 'the log has no event at position 2' };
  expect(await readingOf(store.readAll(startPosition))).toEqual(stopped);
  expect(await readingOf(subscribedTo(2))).toEqual(stopped);
  const positions: string[] = [];
  for await (const events of store.readStored(startPosition))
    positions.push(...events.map((event) => event.position));
  expect(positions).toEqual(['1', '3']);
  await moveHead(-2);
  await append('b');
  await moveHead(1);
  expect(await readingOf(subscribedTo(3))).toEqual({ positions: ['1', '2', '3'] });
});

it('a subscriber that is at the head passes over no position without an event', async () => {
  await append('a');
  const other = open();
  try {
    const following = subscribedTo(2);
    expect((await following.next()).value).toMatchObject({ position: '1' });
    await moveHead(1);
    await asSuiteStore(other).append('t', [noted('c')], 'any');
    await expect(following.next()).rejects.toThrow('the log has no event at position 2');
  } finally {
    await other.close();
  }
});

it('the head is not below an event that the store has seen', async () => {
  await append('a');
  await append('b');
  const other = open();
  try {
    expect(await other.head()).toBe('2');
    await moveHead(-1);
    const goneBack = 'position 2 lies beyond the head of the log, 1';
    await expect(store.head()).rejects.toThrow(goneBack);
    await expect(other.head()).rejects.toThrow(goneBack);
    await moveHead(1);
    expect(await store.head()).toBe('2');
  } finally {
    await other.close();
  }
});
