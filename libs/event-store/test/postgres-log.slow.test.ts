import { createPostgresEventStore, type PostgresEventStoreOptions } from '@token-vault/event-store/postgres';
import {
  AppendUnansweredError,
  EventStoreUnavailableError,
  KeysNotStoredError,
  RevisionConflictError,
  startPosition,
} from '@token-vault/event-store';
import { waitUntil, type TestDatabase } from '@token-vault/test-support';
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { collect, runSubscription } from '../src/contract-suite/fixture.ts';
import { noted, testRegistry, asSuiteStore, type SuiteStore } from '../src/contract-suite/test-events.ts';
import { createTestLog, cutConnections, withClient } from './postgres-log.ts';

let database: TestDatabase;
beforeEach(async () => {
  database = await createTestLog();
});
afterEach(() => database.drop());

function open(options: Partial<PostgresEventStoreOptions> = {}): SuiteStore {
  const connection = { connectionString: database.url };
  const store = createPostgresEventStore({ connection, registry: testRegistry, ...options });
  onTestFinished(() => store.close());
  return asSuiteStore(store);
}

function query(sql: string): Promise<pg.QueryResult<Record<string, unknown>>> {
  return withClient(database.url, (client) => client.query(sql));
}

/** Locks the head row like an append that does not finish. Returns the function that releases the lock. */
async function lockHead(): Promise<() => Promise<void>> {
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  await client.query('begin; select * from event_store.head for update');
  return () => client.end();
}

describe('the tables of the log', () => {
  it.each([
    'update event_store.event set type = type',
    'delete from event_store.event',
    'truncate event_store.event',
    'delete from event_store.stream',
    'truncate event_store.stream',
    'delete from event_store.head',
    'truncate event_store.head',
    'update event_store.head set position = position - 1',
  ])('refuse: %s', async (statement) => {
    const store = open();
    await store.append('a', [noted('kept')], 'any');
    await expect(query(statement)).rejects.toThrow(/append-only/);
    expect(await collect(store.readAll(startPosition))).toHaveLength(1);
  });

  it('keep the exact text that was written', async () => {
    await open().append('a', [noted('ä "quoted" \u0000')], 'any');
    const { rows } = await query('select data::text, bytes > 0 as is_sized from event_store.event');
    expect(rows).toEqual([{ data: '{"text":"ä \\"quoted\\" \\u0000"}', is_sized: true }]);
  });
});

describe('an append to Postgres', () => {
  it('that is rolled back leaves no hole, and readers never see it', async () => {
    const store = open();
    await store.append('a', [noted('first')], 'any');
    await withClient(database.url, async (client) => {
      await client.query('begin');
      await client.query(`select * from event_store.append_events('{a}', '{0}', '{1}', '{1}',
        '{00000000-0000-4000-8000-000000000009}', '{Noted}', '{1}', array['{"text":"undone"}']::json[], array['{}']::json[])`);
      expect((await client.query('select position from event_store.event')).rowCount).toBe(2);
      expect(await collect(store.readAll(startPosition))).toHaveLength(1);
      await client.query('rollback');
    });
    await store.append('a', [noted('second')], 0);
    const log = await collect(store.readAll(startPosition));
    expect(log.map(({ position, data }) => [position, data.text])).toEqual([
      ['1', 'first'],
      ['2', 'second'],
    ]);
  });

  it('whose backend is killed during the append is unavailable, not stored, and succeeds when repeated', async () => {
    const store = open();
    await store.append('a', [noted('first')], 'any');
    const release = await lockHead();
    const event = noted('second');
    const killed = store.append('a', [event], 0);
    killed.catch(() => undefined);
    await waitForBlockedAppend();
    await cutConnections(database.url, `query like '%append_events%' and wait_event_type = 'Lock'`);
    await expect(killed).rejects.toBeInstanceOf(AppendUnansweredError);
    await release();
    expect(await collect(store.readStream('a'))).toHaveLength(1);
    expect(await store.append('a', [event], 0)).toMatchObject({ revision: 1 });
  });

  it('that the database does not answer in time is unavailable, and so is the queue behind it', async () => {
    const store = open({ statementTimeoutMs: 300 });
    await store.append('a', [noted('first')], 'any');
    const release = await lockHead();
    const stuck = store.append('a', [noted('second')], 0);
    stuck.catch(() => undefined);
    await waitForBlockedAppend();
    const behind = store.append('b', [noted('third')], 'any');
    for (const failed of [stuck, behind]) {
      await expect(failed).rejects.toBeInstanceOf(EventStoreUnavailableError);
      // Postgres has reported the rollback, or the append was not sent.
      await expect(failed).rejects.not.toBeInstanceOf(AppendUnansweredError);
    }
    await release();
    expect(await store.append('a', [noted('fourth')], 0)).toMatchObject({ revision: 1 });
    expect(await collect(store.readAll(startPosition))).toHaveLength(2);
  });

  it('that Postgres does not answer is unavailable, like a read, and both succeed afterwards', async () => {
    const store = open({ statementTimeoutMs: 300 });
    await store.append('a', [noted('first')], 'any');
    expect(await collect(store.readAll(startPosition))).toHaveLength(1);
    // As when the network loses answers: the server's own time-out has no effect.
    const { rows } = await query(
      `select pid from pg_stat_activity where application_name = 'event-store' and datname = current_database()`,
    );
    expect(rows.length).toBeGreaterThan(1);
    rows.forEach(({ pid }) => process.kill(Number(pid), 'SIGSTOP'));
    try {
      await expect(store.append('a', [noted('second')], 0)).rejects.toBeInstanceOf(AppendUnansweredError);
      await expect(collect(store.readAll(startPosition))).rejects.toBeInstanceOf(EventStoreUnavailableError);
      expect(await store.append('b', [noted('third')], 'any')).toMatchObject({ revision: 0 });
      expect(await collect(store.readStream('b'))).toHaveLength(1);
    } finally {
      rows.forEach(({ pid }) => process.kill(Number(pid), 'SIGCONT'));
    }
  });

  it('is durable even where the database commits asynchronously, and refuses to run on a stale snapshot', async () => {
    const name = new URL(database.url).pathname.slice(1);
    const none = Array.from({ length: 9 }, () => `'{}'`).join(',');
    const append = `select * from event_store.append_events(${none})`;
    await query(`alter database ${name} set synchronous_commit = off`);
    const setting = await withClient(database.url, async (client) => {
      await client.query('begin');
      await client.query(append);
      return client.query('show synchronous_commit');
    });
    expect(setting.rows).toEqual([{ synchronous_commit: 'on' }]);
    await query(`alter database ${name} set default_transaction_isolation = 'repeatable read'`);
    await expect(withClient(database.url, (client) => client.query(append))).rejects.toThrow(
      /READ COMMITTED/,
    );
    // Connections of the vault set the isolation themselves.
    expect(await open().append('a', [noted('a')], 'any')).toMatchObject({ revision: 0 });
  });

  it('while the database is closed is unavailable, and succeeds afterwards', async () => {
    const name = new URL(database.url).pathname.slice(1);
    const store = open();
    await store.append('a', [noted('first')], 'any');
    await asAdministrator(`alter database ${name} with allow_connections false`);
    await cutConnectionsFromOutside(name);
    await waitUntil(() => store.append('a', [noted('lost')], 'any').then(() => false, isUnavailable));
    // The store has no connection now.
    const refused = store.append('a', [noted('lost')], 'any');
    await expect(refused).rejects.not.toBeInstanceOf(AppendUnansweredError);
    await expect(store.head()).rejects.toBeInstanceOf(EventStoreUnavailableError);
    await asAdministrator(`alter database ${name} with allow_connections true`);
    expect(await store.append('a', [noted('second')], 0)).toMatchObject({ revision: 1 });
  });
});

describe('a subscription to Postgres', () => {
  it('reads events also when their notification was lost', async () => {
    const { events, batches } = runSubscription(open({ pollMs: 50 }), startPosition);
    await waitUntil(() => batches.at(-1)?.isCaughtUp);
    // Written without append_events, so without a notification.
    await query(`with e as (insert into event_store.event select 1, 'a', 0, 1, 2,
        '00000000-0000-4000-8000-000000000009', 'Noted', '{"text":"quiet"}', '{}')
      update event_store.head set position = 1`);
    await waitUntil(() => events.length > 0);
    expect(events.map(({ data }) => data.text)).toEqual(['quiet']);
  });

  it('gets events of its own process without reading them back, and events of other processes between them', async () => {
    const [store, other] = [open({ pollMs: 60_000 }), open()];
    const { events: seen, batches } = runSubscription(store, startPosition);
    await waitUntil(() => batches.at(-1)?.isCaughtUp);
    const reads = vi.spyOn(pg.Client.prototype, 'query');
    onTestFinished(() => reads.mockRestore());
    const pageReads = () =>
      reads.mock.calls.filter(([query]) => (query as { name?: string }).name === 'event_store_log_page')
        .length;
    const isSeen = async (count: number) => await waitUntil(() => seen.length === count);
    // One flush: appends without an expectation are stored last.
    const texts = ['\u0001"\\é', '\u{1f600}'];
    await Promise.all([
      store.append('a', [noted('1'), noted('2')], 'any'),
      ...texts.map((text, index) => store.append(`b${index}`, [noted(text)], 'no-stream')),
    ]);
    for (let revision = 1; revision < 21; revision += 1) await store.append('a', [noted('more')], revision);
    await isSeen(24);
    // A notification may come before an answer, sometimes by more than the tail waits.
    expect(pageReads()).toBeLessThan(10);
    await other.append('a', [noted('4')], 'any');
    await isSeen(25);
    await Promise.all(
      Array.from({ length: 40 }, (_, n) => (n % 2 ? store : other).append('c', [noted(`c${n}`)], 'any')),
    );
    await isSeen(65);
    expect(seen).toEqual(await collect(other.readAll(startPosition)));
  });

  it('shares one connection with the others of its process, and gives it up with the last', async () => {
    const store = open();
    const subscriptions = [1, 2, 3].map(() => runSubscription(store, startPosition));
    await waitUntil(() => subscriptions.every(({ batches }) => batches.at(-1)?.isCaughtUp));
    expect(await countListeners()).toBe(1);
    for (const subscription of subscriptions) subscription.stop();
    await Promise.all(subscriptions.map(({ ended }) => ended));
    await waitUntil(async () => (await countListeners()) === 0);
  });
});

const countListeners = async () => {
  const { rows } = await query(`select count(*)::int as count from pg_stat_activity
    where datname = current_database() and application_name = 'event-store'`);
  return rows[0]?.count;
};

function isUnavailable(error: unknown): boolean {
  return error instanceof EventStoreUnavailableError;
}

async function waitForBlockedAppend(): Promise<void> {
  await waitUntil(async () => {
    const { rowCount } = await query(`select 1 from pg_stat_activity where datname = current_database()
      and query like '%append_events%' and wait_event_type = 'Lock'`);
    return rowCount === 1;
  });
}

async function asAdministrator(sql: string): Promise<void> {
  const url = new URL(database.url);
  url.pathname = '/postgres';
  await withClient(url.href, (client) => client.query(sql));
}

function cutConnectionsFromOutside(name: string): Promise<void> {
  return asAdministrator(
    `select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = '${name}'`,
  );
}

describe('keys that an append needs', () => {
  const keyTable = 'public.key';
  const [first, second, missing] = Array.from({ length: 3 }, () => randomUUID()) as [string, string, string];
  beforeEach(() =>
    query(
      `create table ${keyTable} (id uuid primary key); insert into ${keyTable} values ('${first}'), ('${second}')`,
    ),
  );

  it('are there when it is stored', async () => {
    const store = open({ keyTable });
    const { revision } = await store.append('a', [noted('a')], 'no-stream', { keys: [first, second, first] });
    expect(revision).toBe(0);
    await store.append('a', [noted('b')], 0, { keys: [] });
    expect(await collect(store.readStream('a'))).toHaveLength(2);
  });

  it('refuse it alone when one is not, and nothing of it is stored', async () => {
    const store = open({ keyTable });
    await store.append('taken', [noted('before')], 'no-stream');
    const appends = await Promise.allSettled([
      store.append('kept', [noted('a')], 'no-stream', { keys: [first] }),
      store.append('lost', [noted('a'), noted('b')], 'no-stream', { keys: [second, missing] }),
      store.append('taken', [noted('a')], 'no-stream', { keys: [second] }),
      store.append('none', [noted('a')], 'any'),
    ]);
    const reasons = appends.map((append) =>
      append.status === 'rejected' ? (append.reason as Error) : undefined,
    );
    expect(reasons).toEqual([
      undefined,
      expect.any(KeysNotStoredError) as unknown,
      expect.any(RevisionConflictError) as unknown,
      undefined,
    ]);
    expect(await collect(store.readStream('lost'))).toEqual([]);
    expect(await collect(store.readAll(startPosition))).toHaveLength(3);
    expect((await query('select position from event_store.head')).rows).toEqual([{ position: '3' }]);
    expect((await store.append('lost', [noted('a')], 'no-stream', { keys: [second] })).position).toBe('4');
  });

  it('do not cost the connection when they are missing', async () => {
    const store = open({ keyTable });
    const appender = () =>
      query(`select pid from pg_stat_activity where datname = current_database() and query like '%append_events%'
             and pid <> pg_backend_pid()`);
    await store.append('a', [noted('a')], 'any');
    const { rows } = await appender();
    await expect(store.append('a', [noted('a')], 'any', { keys: [missing] })).rejects.toThrow(
      KeysNotStoredError,
    );
    await store.append('a', [noted('a')], 'any');
    expect((await appender()).rows).toEqual(rows);
  });

  it('are not looked for by a store that is not told where', async () => {
    await open().append('a', [noted('a')], 'any', { keys: [missing] });
  });

  it('are UUIDs', async () => {
    await expect(open({ keyTable }).append('a', [noted('a')], 'any', { keys: ["x'"] })).rejects.toThrow(
      TypeError,
    );
  });
});
