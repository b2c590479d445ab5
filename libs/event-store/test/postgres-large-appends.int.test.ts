import { startPosition, type EventStore } from '@token-vault/event-store';
import { createPostgresEventStore } from '@token-vault/event-store/postgres';
import { waitUntil, type TestDatabase } from '@token-vault/test-support';
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
  });
});
afterAll(async () => {
  await store.close();
  await database.drop();
});

/** The appends that wait for the head of the log. */
async function waiting(): Promise<number> {
  const { rowCount } = await withClient(database.url, (client) =>
    client.query(
      `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
         and query like '%append_events%'`,
    ),
  );
  return rowCount ?? 0;
}

it('a small append is sent while a large one is under way, and both are stored in the order of the log', async () => {
  const appends = await withClient(database.url, async (locking) => {
    await locking.query('begin; select from event_store.head for update');
    const large = asSuiteStore(store).append('large', [noted('x'.repeat(500_000))], 'no-stream');
    await waitUntil(async () => (await waiting()) === 1, { what: 'the large append' });
    const small = asSuiteStore(store).append('small', [noted('y')], 'no-stream');
    await waitUntil(async () => (await waiting()) === 2, { what: 'the small append' });
    await locking.query('rollback');
    return Promise.all([large, small]);
  });
  const names: string[] = [];
  for await (const { events } of store.subscribe(startPosition, AbortSignal.timeout(30_000))) {
    names.push(...events.map(({ stream }) => stream));
    if (names.length === 2) break;
  }
  const inOrder = appends
    .map(({ position }, index) => ({ at: BigInt(position), name: ['large', 'small'][index] }))
    .sort((left, right) => Number(left.at - right.at));
  expect(names).toEqual(inOrder.map(({ name }) => name));
});
