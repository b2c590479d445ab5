import { newId, streams } from '@token-vault/contracts';
import type { RecordedEvent } from '@token-vault/event-store';
import { silentLogger } from '@token-vault/observability';
import { createTestDatabase, createTestPool, waitUntil, type TestDatabase } from '@token-vault/test-support';
import type { Pool } from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { countPending } from '../src/pending.ts';
import { startBacklog, type Backlog } from '../src/runs/backlog.ts';
import { historyFrom, type InvocationHistory } from '../src/runs/invocation.ts';

const tables = `
create schema rm_invocations;
create table rm_invocations.waiting (id uuid primary key, tenant_id uuid not null, application_id text not null, invoked_at timestamptz not null);
create index on rm_invocations.waiting (tenant_id, application_id, invoked_at, id);
create table rm_invocations.running (id uuid primary key, tenant_id uuid not null, deadline timestamptz not null);
create table rm_invocations.delivery (id uuid primary key, tenant_id uuid not null, next_at timestamptz);`;

let database: TestDatabase;
let pool: Pool;
beforeAll(async () => {
  database = await createTestDatabase();
  pool = createTestPool(database.url);
});
afterAll(async () => {
  await pool.end();
  await database.drop();
});

const invoked = (tenantId: string, id: string): RecordedEvent =>
  ({
    type: 'ReactorInvoked',
    data: { invocation_id: id, mode: 'async' },
    metadata: { tenant_id: tenantId, actor: { kind: 'application', id: 'app' } },
    stream: streams.invocation(tenantId, id),
    revision: 0,
  }) as unknown as RecordedEvent;

/** Streams of one event. Their names contain the event. */
const store = {
  async *readStream(stream: string) {
    const [, tenantId = '', id = ''] = /^invocation-([^.]+)\.(.+)$/.exec(stream) ?? [];
    yield invoked(tenantId, id);
  },
};

interface Run {
  readonly tenantId: string;
  readonly id: string;
  readonly claim: () => void;
  /** Ends the run, also in the read model. */
  readonly end: () => Promise<void>;
  readonly endUnknown: () => void;
  readonly fail: (error: Error) => void;
}

let runs: Run[];
let backlog: Backlog;
let backlogs: Backlog[];
beforeEach(() => {
  runs = [];
  backlogs = [];
});
afterEach(async () => {
  const closing = backlogs.map((each) => each.close());
  runs.forEach(({ endUnknown }) => endUnknown());
  await Promise.all(closing);
  await pool.query('drop schema if exists rm_invocations cascade');
});

function handle({ invocation }: InvocationHistory, claim: () => void = () => undefined): Promise<void> {
  if (!invocation) throw new Error('it was never invoked');
  const { tenantId, id } = invocation;
  const over = Promise.withResolvers<void>();
  const end = async () => {
    await pool.query('delete from rm_invocations.waiting where id = $1', [id]);
    over.resolve();
  };
  runs.push({ tenantId, id, claim, end, endUnknown: over.resolve, fail: over.reject });
  return over.promise;
}

/** The number of reads of the read model, including those that failed because its tables were missing. */
let lookCount = 0;
const countingPool = {
  query: (query: string, values: unknown[]) => {
    lookCount += 1;
    return pool.query(query, values);
  },
} as unknown as Pool;

function start(): void {
  const runner = { handle };
  backlog = startBacklog({ store, pool: countingPool, logger: silentLogger, runs: runner, pollMs: 100 });
  backlogs.push(backlog);
}

/** Writes waiting invocations to the read model, as the projector would. Gives their ids. */
async function wait(tenantId: string, count: number, applicationId = 'app'): Promise<string[]> {
  const ids = Array.from({ length: count }, () => newId());
  await pool.query(
    `insert into rm_invocations.waiting select id, $2, $3, now() + ordinal * interval '1 ms'
     from unnest($1::uuid[]) with ordinality as w (id, ordinal)`,
    [ids, tenantId, applicationId],
  );
  return ids;
}

const runsOf = (tenantId: string) => runs.filter((run) => run.tenantId === tenantId);

/** Waits until the read model was read a few more times. The first of these reads may have begun before the call. */
async function looks(): Promise<void> {
  const before = lookCount;
  await waitUntil(() => lookCount >= before + 4, { what: 'more looks' });
}

describe('the backlog of asynchronous invocations', () => {
  const [a, b] = [newId(), newId()];

  it('starts some runs of each tenant at once, and the others in their order when places become free', async () => {
    await pool.query(tables);
    const [ofA, ofB] = [await wait(a, 120), await wait(b, 1)];
    start();
    await waitUntil(() => runs.length === 4);
    await looks();
    expect(runsOf(a).map(({ id }) => id)).toEqual(ofA.slice(0, 3));
    expect(runsOf(b).map(({ id }) => id)).toEqual(ofB);
    for (let index = 0; index < ofA.length; index += 1) {
      await waitUntil(() => runsOf(a).length > index);
      await runsOf(a)[index]?.end();
    }
    expect(runsOf(a).map(({ id }) => id)).toEqual(ofA);
  });

  it('lets the applications of a tenant take turns, however many invocations of one of them wait', async () => {
    await pool.query(tables);
    const ofFirst = await wait(a, 1_000, 'first');
    start();
    await waitUntil(() => runs.length === 3);
    const ofSecond = await wait(a, 4, 'second');
    const isOf = (ids: readonly string[]) => runs.filter(({ id }) => ids.includes(id)).length;
    await looks();
    // One of the hanging runs of the first application ends, and one more: it keeps no more than two places.
    await runs[0]?.end();
    await waitUntil(() => isOf(ofSecond) === 1);
    for (let ended = 1; ended <= 3; ended += 1) {
      await runs.filter(({ id }) => ofSecond.includes(id))[ended - 1]?.end();
      await waitUntil(() => isOf(ofSecond) === ended + 1);
    }
    expect(isOf(ofFirst)).toBe(3);
  });

  it('serves every application of a tenant, also behind many whose invocations others run', async () => {
    await pool.query(tables);
    for (let index = 10; index < 60; index += 1) {
      const [id] = await wait(a, 1, `application ${index}`);
      await pool.query('insert into rm_invocations.running values ($1, $2, now())', [id, a]);
    }
    const ids = await wait(a, 1, 'application 99');
    start();
    await waitUntil(() => runs.length === 1);
    expect(runs.map(({ id }) => id)).toEqual(ids);
  });

  it('takes runs from a feed only while it has places for them, and leaves the others to the read model', async () => {
    await pool.query(tables);
    start();
    const ids = Array.from({ length: 5 }, () => newId());
    const taken: string[] = [];
    for (const id of ids) void backlog.take(historyFrom(invoked(a, id))).then(() => taken.push(id));
    await waitUntil(() => taken.length === 2);
    expect(runs.map(({ id }) => id)).toEqual(ids.slice(0, 3));
    expect(taken).toEqual(ids.slice(3));
    runs.forEach(({ claim }) => claim());
    await waitUntil(() => taken.length === 5);
    await looks();
    expect(runs).toHaveLength(3);
  });

  it('does not begin runs again that have ended or that others run, also when the read model is behind', async () => {
    await pool.query(tables);
    const [first, others] = await wait(a, 2);
    await pool.query('insert into rm_invocations.running values ($1, $2, now())', [others, a]);
    start();
    await waitUntil(() => runs.length === 1);
    runs[0]?.endUnknown();
    await looks();
    expect(runs.map(({ id }) => id)).toEqual([first]);
  });

  it('serves every tenant, for any number of tenants', async () => {
    await pool.query(tables);
    const tenants = Array.from({ length: 450 }, () => newId());
    await pool.query(
      `insert into rm_invocations.waiting select gen_random_uuid(), id, 'app', now() from unnest($1::uuid[]) as t (id)`,
      [tenants],
    );
    start();
    await waitUntil(() => new Set(runs.map(({ tenantId }) => tenantId)).size === tenants.length);
  });

  it('tries again after an error, and waits for tables that do not exist yet', async () => {
    start();
    await looks();
    await pool.query(tables);
    const [id] = await wait(a, 1);
    await waitUntil(() => runs.length === 1);
    runs[0]?.fail(new Error('the store is away'));
    await waitUntil(() => runs.length === 2);
    expect(runs[1]?.id).toBe(id);
  });

  it('is counted separately from running invocations', async () => {
    expect(await countPending(pool)).toEqual({ waiting: 0, running: 0, undelivered: 0 });
    await pool.query(tables);
    const [first] = await wait(a, 3);
    await pool.query('insert into rm_invocations.running values ($1, $2, now()), ($3, $2, now())', [
      first,
      a,
      newId(),
    ]);
    await pool.query('insert into rm_invocations.delivery values ($1, $3, now()), ($2, $3, null)', [
      newId(),
      newId(),
      a,
    ]);
    expect(await countPending(pool)).toEqual({ waiting: 2, running: 2, undelivered: 1 });
  });
});
