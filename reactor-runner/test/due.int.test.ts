import { newId } from '@token-vault/contracts';
import { silentLogger } from '@token-vault/observability';
import { createTestDatabase, createTestPool, manualClock, waitUntil } from '@token-vault/test-support';
import type { Pool } from 'pg';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { startDueWork } from '../src/webhooks/due.ts';

const columns = 'id uuid primary key, tenant_id uuid not null';
const tables = `
create schema rm_alerts;
create table rm_alerts.delivery (${columns}, next_at timestamptz not null, content jsonb not null default '{}');
create index on rm_alerts.delivery (tenant_id, next_at);
create schema rm_invocations;
create table rm_invocations.running (${columns}, deadline timestamptz not null);
create index on rm_invocations.running (tenant_id, deadline);
create table rm_invocations.delivery (${columns}, next_at timestamptz not null);
create index on rm_invocations.delivery (tenant_id, next_at);`;

const clock = manualClock();
let url: string;
let pool: Pool;
/** Receivers that do not answer, by tenant: how often they were asked. */
let held: Map<string, number>;
let answer: () => void;
let done: { tenantId: string; id: string }[];

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
  readonly count: number;
  readonly agoMs?: number;
}

/** Work of a tenant that was due `agoMs` ago and later. */
const addDue = (table: string, { tenantId, count, agoMs = 0 }: Waiting) =>
  pool.query(
    `insert into ${table} select gen_random_uuid(), $1, $2::timestamptz + n * interval '1 ms'
     from generate_series(1, $3::integer) n`,
    [tenantId, new Date(clock.now().getTime() - agoMs - count), count],
  );

const alerts = 'rm_alerts.delivery (id, tenant_id, next_at)';
const results = 'rm_invocations.delivery (id, tenant_id, next_at)';

/** Starts the work. The receivers of `silent` do not answer. */
function start(silent: readonly string[], table = alerts): void {
  const isAnswered = new Promise<void>((resolve) => (answer = resolve));
  const deliver = async (due: { tenantId: string; id: string }) => {
    const { tenantId, id } = due;
    if (silent.includes(tenantId)) {
      held.set(tenantId, (held.get(tenantId) ?? 0) + 1);
      await isAnswered;
    }
    done.push(due);
    await pool.query(`delete from ${table.split(' ')[0]} where id = $1`, [id]);
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

describe('when silent receivers of many tenants have all places', () => {
  it('the next place is for a tenant that has none', async () => {
    const silent = Array.from({ length: 12 }, () => newId());
    for (const tenantId of silent) await addDue(alerts, { tenantId, count: 40, agoMs: 60_000 });
    start(silent);
    await waitUntil(() => heldInAll() === 64, { what: 'all places taken' });
    // In turns: each of the twelve has a twelfth.
    expect(Math.max(...held.values()) - Math.min(...held.values())).toBeLessThanOrEqual(1);
    const other = newId();
    await addDue(alerts, { tenantId: other, count: 1 });
    answer();
    await waitUntil(() => doneOf(other) === 1, { what: 'that of the other tenant' });
    // Those that had a place, and at most one round of places since.
    expect(done.findIndex(({ tenantId }) => tenantId === other)).toBeLessThan(2 * 64);
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
