import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createProjectionAdmin } from '../src/admin.ts';
import { log, tokens } from '../src/projections/index.ts';
import { logSummary } from '../src/projections/log-summary.ts';
import { event, tokenCreated, tokenDeleted, type MetadataOf } from './events.ts';
import { openVault, type Vault } from './vault.ts';

/** As long as a busy machine needs. */
vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 });

let vault: Vault;
beforeEach(async () => {
  vault = await openVault();
});
afterEach(() => vault.close());

const listed = (metadata: MetadataOf = {}, ids: string[] = []) =>
  event('EntitiesRead', { entity_type: 'application', operation: 'list', entity_ids: ids }, metadata);
const at = (time: string): MetadataOf => ({ occurred_at: `2030-01-01T${time}Z` });

const counters = async (table: string) =>
  (
    await vault.rows<{ line: string }>(
      `select to_char(at at time zone 'UTC', 'HH24:MI') || ' ' || operation || ' ' || count as line
       from rm_log_summary.${table} order by 1`,
    )
  ).map(({ line }) => line);
const reasons = () =>
  vault.rows('select reason, count::int from rm_log_summary.hour_reason_count order by reason');

it('entries are counted by minute and by hour, over batches', async () => {
  vault.start({ maxBatch: 2 });
  await vault.reached(
    await vault.append(
      tokenCreated('a', {}, at('10:20:00.000')),
      tokenDeleted('a', at('10:20:59.999')),
      listed(at('10:20:30.000'), ['x', 'y', 'z']),
      listed({ ...at('10:20:40.000'), reason: 'ticket 7' }),
      listed(at('10:21:00.000')),
    ),
  );
  expect(await counters('minute_count')).toEqual([
    '10:20 create 1',
    '10:20 delete 1',
    '10:20 list 4',
    '10:21 list 1',
  ]);
  expect(await counters('hour_count')).toEqual(['10:00 create 1', '10:00 delete 1', '10:00 list 5']);
  expect(await counters('minute_reason_count')).toEqual(['10:20 list 1']);
  expect(await reasons()).toEqual([{ reason: 'ticket 7', count: 1 }]);
});

it('a token counts once in each month in which it is used, over batches', async () => {
  vault.start({ maxBatch: 2 });
  const on = (day: string): MetadataOf => ({ occurred_at: `${day}T10:00:00.000Z` });
  const used = (day: string, ...ids: string[]) => {
    const tokens = ids.map((id) => ({
      token_id: id,
      token_type: 'token' as const,
      transform: 'mask' as const,
    }));
    return event('TokensRead', { operation: 'list', tokens }, on(day));
  };
  await vault.reached(
    await vault.append(
      tokenCreated('a', {}, on('2030-01-01')),
      used('2030-01-31', 'a', 'b'),
      used('2030-02-01', 'b'),
      used('2030-02-28', 'a', 'b', 'c'),
      used('2030-03-01'),
      tokenDeleted('a', on('2030-03-01')),
      listed(on('2030-03-01'), ['x']),
    ),
  );
  const counted = await vault.rows<{ line: string }>(
    `select to_char(month at time zone 'UTC', 'YYYY-MM') || ' ' || count as line
     from rm_log_summary.active_token_count order by 1`,
  );
  expect(counted.map(({ line }) => line)).toEqual(['2030-01 2', '2030-02 3']);
});

it('for an existing log they are filled beside the live read models, and verified', async () => {
  const before = vault.start({ projections: [log, tokens] });
  await vault.reached(await vault.append(tokenCreated('a'), tokenCreated('b')), ['log', 'tokens']);
  await before.close();
  vault.start({ projections: [log, tokens, logSummary] });
  const names = ['log', 'tokens', 'log_summary'];
  await vault.reached(await vault.append(tokenDeleted('a')), names);
  expect(await counters('hour_count')).toEqual(['10:00 create 2', '10:00 delete 1']);

  const admin = createProjectionAdmin({ store: vault.store, connectionString: vault.url });
  expect(await admin.verify('log_summary')).toMatchObject({ isEqual: true });
  await vault.rows(`update rm_log_summary.minute_count set count = count + 1 where operation = 'create'`);
  const verified = await admin.verify('log_summary');
  expect(verified?.isEqual).toBe(false);
  expect(verified?.tables).toMatchObject([
    { table: 'minute_count', surplus: 1, missing: 1 },
    { table: 'minute_reason_count', surplus: 0 },
    { table: 'hour_count', surplus: 0 },
    { table: 'hour_reason_count', surplus: 0 },
    { table: 'active_token', surplus: 0 },
    { table: 'active_token_count', surplus: 0 },
    { table: 'staged_event', surplus: 0 },
    { table: 'closed_transaction', surplus: 0 },
  ]);
});

it('texts that Postgres cannot distinguish are one counter, and do not stop the projection', async () => {
  vault.start();
  await vault.reached(await vault.append(listed({ reason: 'a\u0000' }), listed({ reason: 'a\ufffd' })));
  expect(await reasons()).toEqual([{ reason: 'a\ufffd', count: 2 }]);
});

it('a locked counter delays only the counters', async () => {
  vault.start();
  await vault.reached(await vault.append(tokenCreated('a')));
  const holder = await vault.pool.connect();
  try {
    await holder.query('begin; select from rm_log_summary.minute_count for update');
    const position = await vault.append(tokenCreated('b'));
    await vault.reached(position, ['log', 'tokens']);
    expect(await counters('hour_count')).toEqual(['10:00 create 1']);
    await holder.query('commit');
    await vault.reached(position);
  } finally {
    holder.release();
  }
  expect(await counters('hour_count')).toEqual(['10:00 create 2']);
});
