import type pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Position } from '@token-vault/event-store';
import { silentLogger } from '@token-vault/observability';
import { createTestDatabase, createTestPool } from '@token-vault/test-support';
import { createProjectionProgress, createRevocations, type ProjectionProgress } from '../src/index.ts';

const schema = `create schema projections;
create table projections.checkpoint (name text primary key, status text not null, position bigint not null);
insert into projections.checkpoint values ('applications', 'live', 5), ('tenants', 'live', 5);
create table projections.access (generation bigint not null);
insert into projections.access values (0);
create table projections.revocation (generation bigint, stream text, primary key (generation, stream));
create table projections.unconfirmed_revocation (position bigint primary key);`;
const position = '5' as Position;

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let pool: pg.Pool;
/** Of another process than the one that confirms. */
let progress: ProjectionProgress;

beforeEach(async () => {
  database = await createTestDatabase();
  pool = createTestPool(database.url);
  await pool.query(schema);
  progress = await createProjectionProgress({ connectionString: database.url, logger: silentLogger });
});
afterEach(async () => {
  await progress.close();
  await pool.end();
  await database.drop();
});

async function known() {
  const read = await progress.read();
  if (!read) throw new Error('the state cannot be read');
  return read.revocations;
}

/** On a busy machine a confirmation may take longer than a request would wait. */
const confirm = (stream: string) =>
  createRevocations({ pool, progress, withinMs: 60_000 }).confirm(position, [stream]);

describe('a confirmed revocation', () => {
  it('concerns the callers that rest on its streams, and no others', async () => {
    const { generation } = await known();
    const revocations = createRevocations({ pool, progress, withinMs: 60_000 });
    const revoked = [['a'], ['b'], ['b', 'c']];
    await Promise.all(revoked.map((streams) => revocations.confirm(position, streams)));
    const after = await known();
    const areLeft = ['a', 'b', 'c', 'd'].map((stream) => after.leave({ generation, streams: [stream] }));
    expect(areLeft).toEqual([false, false, false, true]);
  });

  it('concerns everyone when a process of an older release confirms it, which names no stream', async () => {
    const { generation } = await known();
    await pool.query('update projections.access set generation = generation + 1');
    await confirm('a');
    const after = await known();
    expect(after.leave({ generation, streams: ['d'] })).toBe(false);
    expect(after.leave({ generation: generation + 1, streams: ['d'] })).toBe(true);
    expect(after.leave({ generation: generation + 1, streams: ['a'] })).toBe(false);
  });

  it('is forgotten in the database when a thousand have followed', async () => {
    await confirm('a');
    await pool.query('update projections.access set generation = generation + 1000');
    await confirm('b');
    const { rows } = await pool.query('select stream from projections.revocation');
    expect(rows).toEqual([{ stream: 'b' }]);
  });
});
