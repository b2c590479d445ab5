import { startPosition, type EventStore, type StoredEvent } from '@token-vault/event-store';
import { createPostgresEventStore } from '@token-vault/event-store/postgres';
import type { TestDatabase } from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { asSuiteStore, noted, testRegistry } from '../src/contract-suite/test-events.ts';
import { createTestLog, withClient } from './postgres-log.ts';

let database: TestDatabase;
let store: EventStore;

beforeAll(async () => {
  database = await createTestLog();
  store = createPostgresEventStore({
    connection: { connectionString: database.url },
    registry: testRegistry,
    pollMs: 20,
  });
});
afterAll(async () => {
  await store.close();
  await database.drop();
});

const append = (stream: string, text = 'x') => asSuiteStore(store).append(stream, [noted(text)], 'any');
const outside = ['-9223372036854775808', '-7', '4611686018427387904', '9223372036854775807'];

/** As a writer of the database, who owns the tables. */
const plant = (stream: string): Promise<void> =>
  withClient(database.url, async (client) => {
    await client.query(`alter table event_store.event drop constraint event_position_check;
      alter table event_store.event disable trigger append_only`);
    for (const position of outside)
      await client.query(
        `with next as (update event_store.stream set revision = revision + 1 where name = $2 returning revision)
         insert into event_store.event (position, stream, revision, version, bytes, id, type, data, metadata)
         select $1, $2, next.revision, 1, 9, $3, 'planted', '{}', '{}' from next`,
        [position, stream, randomUUID()],
      );
  });

async function all<Each>(read: AsyncIterable<Each>): Promise<Each[]> {
  const found: Each[] = [];
  for await (const each of read) found.push(each);
  return found;
}
const positionsOf = async (read: AsyncIterable<readonly StoredEvent[]> | undefined): Promise<string[]> =>
  read ? (await all(read)).flat().map(({ position }) => position) : [];

it('no event is stored at a position below 1', async () => {
  // It fills a page, so the rest of the stream is read by another statement.
  await append('s', 'x'.repeat(5_000_000));
  const insert = `insert into event_store.event select -1, 's', 1, version, bytes, id, type, data, metadata from event_store.event`;
  await expect(withClient(database.url, (client) => client.query(insert))).rejects.toMatchObject({
    code: '23514',
  });
});

it('events at positions that no append gives are in no stream and not in the log, and told apart', async () => {
  const { revision, position } = await append('s');
  await plant('s');
  const other = await append('newer than all that was read');
  expect(await all(store.readStream('newer than all that was read'))).toHaveLength(1);
  expect(other.position).toBe('3');
  const [newest] = await all(store.readStoredStream('s', { backwards: true, maxCount: 1 }));
  expect(newest).toMatchObject({ revision, position });
  expect((await all(store.readStoredStream('s'))).map((event) => event.revision)).toEqual([0, 1]);
  expect(await all(store.readStoredStream('s', { from: revision + 1 }))).toEqual([]);
  expect(await positionsOf(store.readStored(startPosition))).toEqual(['1', '2', '3']);
  expect(await positionsOf(store.readStoredBackwards())).toEqual(['3', '2', '1']);
  expect(await positionsOf(store.readStoredOutside?.())).toEqual(outside);
});

it('a subscriber passes no event beyond the head, and goes on', async () => {
  const ending = new AbortController();
  const seen: string[] = [];
  for await (const batch of store.subscribe(startPosition, ending.signal)) {
    seen.push(...batch.events.map((event) => event.position));
    if (seen.length === 3) await append('other');
    if (seen.length === 4) ending.abort();
  }
  expect(seen).toEqual(['1', '2', '3', '4']);
});
