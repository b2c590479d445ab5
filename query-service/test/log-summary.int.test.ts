import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { EntitiesRead, streams, TokensRead, type LogEntry, type LogSummary } from '@token-vault/contracts';
import { createRequestContext } from '@token-vault/operations';
import { managerOf, principalOf, setUpVault, type Vault } from './vault.ts';

/** As long as a busy machine needs. */
vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 });

let vault: Vault;
let tenantId: string;

beforeAll(async () => {
  vault = await setUpVault();
});
afterAll(() => vault.end());
beforeEach(async () => {
  vault.clock.set('2030-02-01T00:00:00Z');
  tenantId = await vault.tenant();
});

type Query = Readonly<Record<string, string>>;
const summary = (query: Query) => vault.call<LogSummary>('summarizeLogs', managerOf(tenantId), { query });

/** The counts that the entries of `GET /logs` give. */
async function countsOfList({ interval, group_by: group, ...query }: Query): Promise<LogSummary['data']> {
  const entries: LogEntry[] = [];
  for (let page = 1, pages = 1; page <= pages; page += 1) {
    const found = await vault.call<{ pagination: { total_pages: number }; data: LogEntry[] }>(
      'listLogs',
      managerOf(tenantId),
      { query: { ...query, size: '100', page: String(page) } },
    );
    pages = found.pagination.total_pages;
    entries.push(...found.data);
  }
  const length = interval === 'minute' ? 16 : interval === 'hour' ? 13 : 10;
  const column = (group === 'actor' ? 'actor_id' : group) as keyof LogEntry | undefined;
  const counts = new Map<string, LogSummary['data'][number]>();
  for (const entry of entries) {
    const start = `${entry.created_at.slice(0, length)}${'0000-00-00T00:00:00.000Z'.slice(length)}`;
    const value = column && entry[column];
    const counted = counts.get(`${start} ${value}`);
    if (counted) counted.count += 1;
    else counts.set(`${start} ${value}`, { start, ...(value === undefined ? {} : { value }), count: 1 });
  }
  return [...counts.values()];
}

const sorted = (data: LogSummary['data']): string[] =>
  data.map(({ start, value = '-', count }) => `${start} ${value} ${count}`).sort();

const applicationIds = ['1', '2', '3'].map((digit) => `${digit.repeat(8)}-1111-4111-8111-111111111111`);
const reasons = ['ticket 7', "x' or true --", '%'];
const day = Date.parse('2030-01-10T00:00:00Z');
/** Often at the very start or end of a minute, an hour or the day. */
const moment = fc
  .tuple(fc.integer({ min: -1, max: 26 }), fc.constantFrom(0, 1, 59), fc.constantFrom(-1, 0, 1, 30_000))
  .map(([hours, minutes, ms]) => new Date(day + hours * 3_600_000 + minutes * 60_000 + ms));

const access = fc.record({
  who: fc.constantFrom(...applicationIds),
  reason: fc.option(fc.constantFrom(...reasons), { nil: undefined }),
  request: fc.constantFrom('getToken', 'listTokens'),
  when: moment,
  trace: fc.constantFrom('t1', 't2'),
  token: fc.option(fc.constantFrom('a', 'b'), { nil: undefined }),
  transform: fc.constantFrom('mask' as const, 'reveal' as const, 'redact' as const),
});
type Access = typeof access extends fc.Arbitrary<infer Value> ? Value : never;

/** Mostly no filter, because many filters together find nothing. */
const maybe = (values: readonly string[]) =>
  fc.oneof(
    { arbitrary: fc.constant(undefined), weight: 6 },
    { arbitrary: fc.constantFrom(...values), weight: 1 },
  );
const often = (value: string) =>
  fc.oneof(
    fc.constant(value),
    moment.map((date) => date.toISOString()),
  );
const asked = fc
  .record({
    interval: fc.constantFrom('minute', 'hour', 'day'),
    group_by: fc.constantFrom(undefined, 'actor', 'operation', 'entity_type', 'transform', 'reason'),
    actor_id: maybe(applicationIds),
    entity_type: maybe(['token', 'application']),
    entity_id: maybe(['a']),
    operation: maybe(['read', 'list']),
    transform: maybe(['mask', 'reveal']),
    request: maybe(['getToken']),
    trace_id: maybe(['t1']),
    reason: maybe(reasons),
    start_date: often('2030-01-09'),
    end_date: often('2030-01-12'),
  })
  .map((query) => JSON.parse(JSON.stringify(query)) as Query);

async function append({ who, reason, request, when, trace, token, transform }: Access): Promise<void> {
  const principal = { ...principalOf(tenantId, { applicationId: who }), ...(reason ? { reason } : {}) };
  const context = createRequestContext({ principal, traceId: trace, now: when, request });
  const read =
    token === undefined
      ? context.event(EntitiesRead, { entity_type: 'application', operation: 'list', entity_ids: [] })
      : context.event(TokensRead, {
          operation: 'read',
          tokens: [{ token_id: token, token_type: 'token', transform }],
        });
  await vault.store.append(streams.access(tenantId, '2030-01-10'), [read], 'any');
}

describe('the summary of the log', () => {
  it('gives the same counts as the list of the log, for any filter and any log', async () => {
    let compared = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(access, { minLength: 40, maxLength: 60 }),
        fc.array(asked, { minLength: 12, maxLength: 12 }),
        async (log, queries) => {
          tenantId = await vault.tenant();
          for (const each of log) await append(each);
          for (const query of queries) {
            const { data, total_items: total } = await summary(query);
            expect(sorted(data), JSON.stringify(query)).toEqual(sorted(await countsOfList(query)));
            expect(total).toBe(data.reduce((sum, { count }) => sum + count, 0));
            compared += total;
          }
        },
      ),
      { numRuns: 15 },
    );
    expect(compared).toBeGreaterThan(100);
  });

  it('counts the whole log when no range is given', async () => {
    const { data, total_items: total } = await summary({ interval: 'day', group_by: 'operation' });
    expect(data).toEqual([{ start: '2030-02-01T00:00:00.000Z', value: 'create', count: 1 }]);
    expect(total).toBe(1);
  });

  it('is itself recorded, and never contains data of another tenant', async () => {
    const other = await vault.tenant();
    await vault.token(other);
    await summary({ interval: 'day' });
    const { data } = await summary({ interval: 'day', group_by: 'operation' });
    expect(data.map(({ value, count }) => `${value} ${count}`)).toEqual(['create 1', 'list 1']);
  });

  it.each<[string, Query]>([
    ['interval', {}],
    ['interval', { interval: 'week' }],
    ['group_by', { interval: 'day', group_by: 'trace_id' }],
    ['start_date', { interval: 'minute' }],
    ['start_date', { interval: 'minute', start_date: '2030-01-01' }],
    ['start_date', { interval: 'hour', start_date: '2028-01-01' }],
  ])('names %s for what it does not answer: %j', async (field, query) => {
    const refusal: unknown = await summary(query).catch((error: unknown) => error);
    expect(JSON.stringify(refusal)).toContain(field);
    expect((await summary({ interval: 'day', operation: 'list' })).total_items).toBe(0);
  });

  it('names the interval when there are too many counts', async () => {
    await vault.settle();
    await vault.pool.query(
      `insert into rm_log_summary.hour_reason_count (tenant_id, at, actor_id, entity_type, operation, transform, request, reason, count)
       select $1, '2030-01-01', '', 'token', 'read', '', '', 'reason ' || n, 1 from generate_series(1, 10001) n`,
      [tenantId],
    );
    const asking = summary({ interval: 'day', group_by: 'reason', start_date: '2029-12-31' });
    await expect(asking).rejects.toMatchObject({ errors: { interval: [expect.stringContaining('10000')] } });
  });

  it('names the filter when one entity has too many entries', async () => {
    await vault.settle();
    const client = await vault.pool.connect();
    await client.query('begin');
    // The trigger of the table finds the counters by the search path, as in a projector's session.
    await client.query('set local search_path = rm_log');
    await client.query(
      `insert into entry (tenant_id, seq, ordinal, entity_type, entity_id, operation, message, created_at, size)
       select $1, 1000 + n, 0, 'token', 'busy', 'read', 'Token retrieved', '2030-01-01', 1
       from generate_series(1, 100001) n`,
      [tenantId],
    );
    // Autovacuum may count the rows before they are committed. The planner expects a few rows then.
    await vault.pool.query('analyze rm_log.entry; analyze rm_log.entry_entity');
    await client.query('commit');
    client.release();
    const asking = summary({ interval: 'day', entity_id: 'busy' });
    await expect(asking).rejects.toMatchObject({
      errors: { entity_id: [expect.stringContaining('100000')] },
    });
  });
});
