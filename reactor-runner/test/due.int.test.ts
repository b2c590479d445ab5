import { newId } from '@token-vault/contracts';
import { silentLogger } from '@token-vault/observability';
import { createTestDatabase, createTestPool, manualClock, waitUntil } from '@token-vault/test-support';
import type { Pool } from 'pg';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { startDueWork, type DueWorkOptions } from '../src/webhooks/due.ts';

const columns = 'id uuid primary key, tenant_id uuid not null';
const ofApplications = `${columns}, application_id text not null`;
const tables = `
create schema rm_alerts;
create table rm_alerts.delivery (${ofApplications}, next_at timestamptz not null, content jsonb not null default '{}');
create index on rm_alerts.delivery (tenant_id, application_id, next_at, id);
create schema rm_invocations;
create table rm_invocations.running (${columns}, deadline timestamptz not null);
create index on rm_invocations.running (tenant_id, deadline);
create table rm_invocations.delivery (${ofApplications}, next_at timestamptz);
create index on rm_invocations.delivery (tenant_id, application_id, next_at, id) where next_at is not null;`;

const clock = manualClock();
let url: string;
let pool: Pool;
/** How often receivers that do not answer were asked, and ask no more, by tenant. */
let held: Map<string, number>;
let answer: () => void;
let done: { tenantId: string; id: string; by: string }[];

beforeEach(async () => {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  ({ url } = database);
  pool = createTestPool(url);
  onTestFinished(() => pool.end());
  await pool.query(tables);
  held = new Map();
  done = [];
});

interface Waiting {
  readonly tenantId: string;
  readonly applicationId?: string;
  readonly count: number;
  readonly agoMs?: number;
}

/** Work of a tenant that was due `agoMs` ago and later. */
const addDue = (table: string, { tenantId, applicationId = 'app', count, agoMs = 0 }: Waiting) =>
  pool.query(
    `insert into ${table} select gen_random_uuid(), $1, $4, $2::timestamptz + n * interval '1 ms'
     from generate_series(1, $3::integer) n`,
    [tenantId, new Date(clock.now().getTime() - agoMs - count), count, applicationId],
  );

const alerts = 'rm_alerts.delivery (id, tenant_id, application_id, next_at)';
const results = 'rm_invocations.delivery (id, tenant_id, application_id, next_at)';

/** Starts the work. The receivers of `silent` (ids of tenants or applications) do not answer. */
function start(silent: readonly string[], table = alerts): void {
  const isAnswered = new Promise<void>((resolve) => (answer = resolve));
  const deliver: DueWorkOptions['deliver'] = async (due, signal) => {
    const { tenantId, id } = due;
    const name = table.split(' ')[0];
    const { rows } = await pool.query<{ by: string }>(
      `select application_id as by from ${name} where id = $1`,
      [id],
    );
    const by = rows[0]?.by ?? '';
    if (silent.includes(tenantId) || silent.includes(by)) {
      held.set(tenantId, (held.get(tenantId) ?? 0) + 1);
      const isOver = new Promise((resolve) => signal.addEventListener('abort', resolve));
      await Promise.race([isAnswered, isOver]);
      held.set(tenantId, (held.get(tenantId) ?? 0) - 1);
    }
    done.push({ tenantId, id, by });
    await pool.query(`delete from ${name} where id = $1`, [id]);
  };
  const unexpected = () => Promise.reject(new Error('not in this test'));
  const work = startDueWork({
    pool,
    connectionString: url,
    clock,
    logger: silentLogger,
    failLost: unexpected,
    deliver,
    alert: deliver,
    pollMs: 100,
  });
  onTestFinished(() => {
    answer();
    return work.close();
  });
}

const doneOf = (tenantId: string): number => done.filter((each) => each.tenantId === tenantId).length;
const heldInAll = (): number => [...held.values()].reduce((sum, count) => sum + count, 0);

describe.each([
  ['security webhooks', alerts],
  ['results', results],
])('%s of a tenant whose receiver does not answer', (_what, table) => {
  it('do not delay those of another tenant', async () => {
    const [silent, other] = [newId(), newId()];
    await addDue(table, { tenantId: silent, count: 330, agoMs: 60_000 });
    start([silent], table);
    await waitUntil(() => heldInAll() > 0, { what: 'attempts at the silent receiver' });
    await addDue(table, { tenantId: other, count: 10 });
    await waitUntil(() => doneOf(other) === 10, { what: 'those of the other tenant' });
    expect(doneOf(silent)).toBe(0);
  });
});

describe.each([
  ['security webhooks', alerts],
  ['results', results],
])('%s of an application whose receiver does not answer', (_what, table) => {
  it('do not delay those of the other applications of its tenant, also when there are several such', async () => {
    const tenantId = newId();
    const silent = ['silent 1', 'silent 2'];
    for (const applicationId of silent)
      await addDue(table, { tenantId, applicationId, count: 200, agoMs: 60_000 });
    start(silent, table);
    await waitUntil(() => heldInAll() === 8, { what: 'all places of the tenant taken' });
    await addDue(table, { tenantId, applicationId: 'other', count: 10 });
    const ofOther = () => done.filter(({ by }) => by === 'other').length;
    await waitUntil(() => ofOther() === 10, { what: 'those of the other application' });
    expect(done).toHaveLength(10);
  });
});

describe.each([
  ['security webhooks', alerts],
  ['results', results],
])('when silent receivers of many tenants have all places, %s', (_what, table) => {
  it('of a tenant that has none are delivered at once', async () => {
    const silent = Array.from({ length: 12 }, () => newId());
    for (const tenantId of silent) await addDue(table, { tenantId, count: 40, agoMs: 60_000 });
    start(silent, table);
    await waitUntil(() => heldInAll() === 64, { what: 'all places taken' });
    // In turns: each of the twelve has a twelfth.
    expect(Math.max(...held.values()) - Math.min(...held.values())).toBeLessThanOrEqual(1);
    const other = newId();
    await addDue(table, { tenantId: other, count: 10 });
    await waitUntil(() => doneOf(other) === 10, { what: 'those of the other tenant' });
    expect(done).toHaveLength(10);
  });
});

describe('when silent receivers of more tenants than there are places have all of them', () => {
  it('the brief places become free for others after a short time', async () => {
    const silent = Array.from({ length: 140 }, () => newId());
    for (const tenantId of silent) await addDue(alerts, { tenantId, count: 2, agoMs: 60_000 });
    start(silent);
    await waitUntil(() => heldInAll() === 128, { what: 'all places taken' });
    const other = newId();
    await addDue(alerts, { tenantId: other, count: 1 });
    await waitUntil(() => doneOf(other) === 1, { what: 'that of the other tenant' });
    // The other places are taken as before: 64 attempts have not ended.
    expect(heldInAll()).toBeGreaterThanOrEqual(64);
  });
});

describe('deliveries of one tenant', () => {
  it('are all made, each once, without a poll for each few of them', async () => {
    const tenantId = newId();
    await addDue(alerts, { tenantId, count: 100 });
    start([]);
    await waitUntil(() => done.length === 100, { what: 'all deliveries' });
    expect(new Set(done.map(({ id }) => id)).size).toBe(100);
  });
});
