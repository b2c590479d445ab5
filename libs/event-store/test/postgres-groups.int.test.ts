import { AppendGroup, type EventStore } from '@token-vault/event-store';
import { createPostgresEventStore } from '@token-vault/event-store/postgres';
import type { TestDatabase } from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { asSuiteStore, noted, testRegistry } from '../src/contract-suite/test-events.ts';
import { createTestLog, withClient } from './postgres-log.ts';

let database: TestDatabase;
let store: EventStore;
const flushes: number[] = [];

beforeAll(async () => {
  database = await createTestLog();
  store = createPostgresEventStore({
    connection: { connectionString: database.url },
    registry: testRegistry,
    keyTable: 'public.data_key_of_test',
    onFlush: (appends) => flushes.push(appends),
  });
  await withClient(database.url, (client) =>
    client.query('create table data_key_of_test (id uuid primary key)'),
  );
});
afterAll(async () => {
  await store.close();
  await database.drop();
});

/** The number of events whose streams have the prefix, for each transaction of the database that stored some. */
const perTransaction = (prefix: string): Promise<number[]> =>
  withClient(database.url, async (client) => {
    const { rows } = await client.query<{ events: number }>(
      'select count(*)::integer as events from event_store.event where stream like $1 group by xmin::text',
      [`${prefix}%`],
    );
    return rows.map(({ events }) => events);
  });

function appendGroup(prefix: string, size: number, keys: readonly string[] = []) {
  const group = new AppendGroup(size);
  return Array.from({ length: size }, (_, index) => {
    const options = { member: group.join(), keys: keys.slice(index, index + 1) };
    return asSuiteStore(store).append(`${prefix}-${index}`, [noted('x')], 'no-stream', options);
  });
}

describe('the appends of a group', () => {
  it('are one transaction of Postgres, also beside very many others', async () => {
    const before = Array.from({ length: 480 }, (_, index) =>
      asSuiteStore(store).append(`alone-${index}`, [noted('x')], 'any'),
    );
    const groups = ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => appendGroup(name, 100));
    await Promise.all([...before, ...groups.flat()]);
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f'])
      expect(await perTransaction(`${name}-`)).toEqual([100]);
    expect(Math.max(...flushes)).toBeLessThanOrEqual(500);
  });

  it('are one transaction in which those that conflict are missing', async () => {
    await asSuiteStore(store).append('taken-7', [noted('before')], 'any');
    const outcomes = await Promise.allSettled(appendGroup('taken', 20));
    expect(outcomes.filter(({ status }) => status === 'rejected')).toHaveLength(1);
    expect((await perTransaction('taken-')).sort()).toEqual([1, 19].sort());
  });

  it('are not stored at all when a key of one is lost, and others are', async () => {
    const group = appendGroup('lost', 5, [randomUUID()]);
    const other = appendGroup('kept', 5);
    for (const outcome of await Promise.allSettled(group))
      expect(outcome).toMatchObject({ reason: { code: 'event_store_unavailable' } });
    await Promise.all(other);
    expect([await perTransaction('lost-'), await perTransaction('kept-')]).toEqual([[], [5]]);
  });
});
