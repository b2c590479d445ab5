import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { Position } from '@token-vault/event-store';
import { openListener } from '@token-vault/postgres';
import { createTestDatabase, createTestPool, waitUntil } from '@token-vault/test-support';
import {
  createProjectionProgress,
  type ProjectionProgress,
  type ProjectionProgressOptions,
} from '../src/index.ts';
import { silentLogger } from '@token-vault/observability';

const schema = `create schema projections;
create table projections.checkpoint (name text primary key, status text not null, position bigint not null);
insert into projections.checkpoint values ('tokens', 'live', 5), ('log', 'live', 5);
create table projections.access (generation bigint not null);
insert into projections.access values (0);
create table projections.revocation (generation bigint not null, stream text not null);`;

/** Longer than any test: a call that resolves did not time out. */
const long = 600_000;
const at = (position: number) => String(position) as Position;

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let pool: pg.Pool;
let progress: ProjectionProgress;

beforeEach(async () => {
  database = await createTestDatabase();
  pool = createTestPool(database.url);
  await pool.query(schema);
  await begin();
});

afterEach(async () => {
  await progress.close();
  await pool.end();
  await database.drop();
});

async function begin(pollMs = 20, options: Partial<ProjectionProgressOptions> = {}): Promise<void> {
  const connectionString = database.url;
  progress = await createProjectionProgress({ connectionString, logger: silentLogger, pollMs, ...options });
}

async function again(...options: Parameters<typeof begin>): Promise<void> {
  await progress.close();
  await begin(...options);
}

async function advance(name: string, position: number | string, isTold = true): Promise<void> {
  await pool.query('update projections.checkpoint set position = $2 where name = $1', [name, position]);
  if (isTold) await pool.query(`select pg_notify('projection_progress', $1)`, [`${name}:${position}`]);
}

async function cut(): Promise<void> {
  await pool.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where application_name = 'vault-progress' and datname = current_database()`,
  );
}

describe('waiting for the read models', () => {
  it('ends at once for a position that all have passed', async () => {
    expect(await progress.waitFor(at(5), long)).toBe(true);
  });

  it('ends when the last of them has passed', async () => {
    await again(long);
    let isOver = false;
    const waiting = progress.waitFor(at(7), long).then((passed) => ((isOver = true), passed));
    await advance('tokens', 8);
    expect(await progress.waitFor(at(7), long, ['tokens'])).toBe(true);
    expect(isOver).toBe(false);
    await advance('log', 7);
    expect(await waiting).toBe(true);
  });

  it('includes read models that are not awaited only when they are named', async () => {
    await again(20, { unawaited: ['log'] });
    await advance('tokens', 7);
    expect(await progress.waitFor(at(7), long)).toBe(true);
    expect(await progress.waitFor(at(7), 50, ['log'])).toBe(false);
    await pool.query(`update projections.checkpoint set status = 'failed' where name = 'log'`);
    await again(20, { unawaited: ['log'] });
    expect(await progress.waitFor(at(7), long)).toBe(true);
    expect(await progress.waitFor(at(7), long, ['log'])).toBe(false);
  });

  it('by a reader asks for a commit at once, unless the position is reached already', async () => {
    const hurried: string[] = [];
    const advancing: Promise<void>[] = [];
    const hurry = (position: string) => {
      hurried.push(position);
      advancing.push(advance('tokens', position), advance('log', position));
    };
    const settings = { connectionString: database.url };
    const projector = await openListener(settings, { projection_hurry: hurry }, () => undefined);
    await again(long);
    expect(await progress.reach(at(5), long)).toBe(true);
    await progress.waitFor(at(9), 20);
    expect(await progress.reach(at(7), long)).toBe(true);
    expect(await progress.reach(at(8), long, ['log'])).toBe(true);
    expect(hurried).toEqual([at(7), at(8)]);
    // Thousands may wait at once.
    const reached = await Promise.all(Array.from({ length: 1_000 }, () => progress.reach(at(9), long)));
    expect(reached.every(Boolean)).toBe(true);
    expect(hurried.length).toBeLessThan(20);
    await projector.end();
    await Promise.all(advancing);
  });

  it('by many readers at once causes no warning of the driver', async () => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
    onTestFinished(() => warn.mockRestore());
    const reached = Promise.all(
      Array.from({ length: 20 }, (_, index) => progress.reach(at(6 + index), long)),
    );
    await progress.read();
    await advance('tokens', 30);
    await advance('log', 30);
    expect((await reached).every(Boolean)).toBe(true);
    expect(warn).not.toHaveBeenCalled();
  });

  it('compares positions as numbers of any size', async () => {
    await advance('tokens', '9007199254740993');
    expect(await progress.waitFor('9007199254740993' as Position, long, ['tokens'])).toBe(true);
    expect(await progress.waitFor('9007199254740994' as Position, 1, ['tokens'])).toBe(false);
  });

  it('ends although a notification was lost', async () => {
    const waiting = progress.waitFor(at(7), long);
    await advance('tokens', 7, false);
    await advance('log', 7, false);
    expect(await waiting).toBe(true);
  });

  it('ends although the connection was cut meanwhile', async () => {
    const waiting = progress.waitFor(at(7), long);
    await cut();
    await advance('tokens', 7);
    await advance('log', 7);
    expect(await waiting).toBe(true);
    expect(await progress.waitFor(at(7), long)).toBe(true);
  });

  it('is for all of them, also when only one has sent a notification since the connection was lost', async () => {
    let isOver = false;
    const waiting = progress.waitFor(at(6), long).finally(() => (isOver = true));
    // So many that some arrive on a new connection before it has read all positions.
    const telling = pool.query(
      `do $$ begin for i in 1..20000 loop perform pg_notify('projection_progress', 'log:6'); commit; end loop; end $$`,
    );
    for (let cuts = 0; cuts < 20; cuts += 1) {
      await cut();
      await sleep(40);
    }
    await telling;
    expect(isOver).toBe(false);
    await advance('log', 6);
    await advance('tokens', 6);
    expect(await waiting).toBe(true);
  });

  it('ignores notifications without a position, which every role of the database can send', async () => {
    await again(long);
    const { losses } = progress;
    const waiting = progress.waitFor(at(7), long);
    for (const payload of ['', 'nonsense', 'tokens:', 'tokens:x', 'tokens:99999999999999999999'])
      await pool.query(`select pg_notify('projection_progress', $1)`, [payload]);
    await advance('tokens', 7);
    await advance('log', 7);
    expect(await waiting).toBe(true);
    expect(progress.losses).toBe(losses);
  });

  it('believes no notification: the stored checkpoints count', async () => {
    let told = 0;
    await again(20, { onToldMove: () => (told += 1), head: async () => at(6) });
    let isOver = false;
    const waiting = progress.waitFor(at(7), long).finally(() => (isOver = true));
    const forge = () =>
      pool.query(
        `select pg_notify('projection_progress', name || ':4000000000') from projections.checkpoint`,
      );
    await forge();
    await waitUntil(() => told === 2);
    const read = await progress.read();
    expect(read?.checkpoints.get('tokens')).toEqual({ position: at(5), status: 'live' });
    expect(await progress.waitFor(at(7), 50)).toBe(false);
    expect(isOver).toBe(false);
    await advance('tokens', 7);
    await advance('log', 7);
    expect(await waiting).toBe(true);
    // Nor does the process wait after a loss for a position that the log does not have.
    const before = told;
    await forge();
    await waitUntil(() => told >= before + 2);
    await cut();
    await waitUntil(() => progress.losses > 0);
    expect(await progress.recovered(long)).toBe(true);
  });

  it('counts the losses of its connection', async () => {
    const before = progress.losses;
    await cut();
    await waitUntil(() => progress.losses === before + 1);
  });

  it('ends without success after its time limit', async () => {
    expect(await progress.waitFor(at(7), 1)).toBe(false);
  });

  it.each(['failed', 'paused', 'outdated'])(
    'ends without success at once when one is %s and behind',
    async (status) => {
      const early = progress.waitFor(at(7), long);
      await pool.query('update projections.checkpoint set status = $1 where name = $2', [status, 'log']);
      expect(await early).toBe(false);
      expect(await progress.waitFor(at(7), long)).toBe(false);
      expect(await progress.waitFor(at(5), long)).toBe(true);
    },
  );

  it('continues when the failed one is live again', async () => {
    await pool.query(`update projections.checkpoint set status = 'failed' where name = 'log'`);
    expect(await progress.waitFor(at(7), long)).toBe(false);
    await pool.query(`update projections.checkpoint set status = 'live' where name = 'log'`);
    await advance('log', 7);
    await advance('tokens', 7);
    await waitUntil(() => progress.waitFor(at(7), 50));
  });

  it('does not wait for a removed one, and waits for a named one that does not exist yet', async () => {
    await advance('tokens', 7);
    await pool.query(`delete from projections.checkpoint where name = 'log'`);
    expect(await progress.waitFor(at(7), long)).toBe(true);
    const waiting = progress.waitFor(at(7), long, ['runs']);
    await pool.query(`insert into projections.checkpoint values ('runs', 'live', 7)`);
    expect(await waiting).toBe(true);
  });

  it('does not wait for a row with the name of no read model', async () => {
    await pool.query(`insert into projections.checkpoint values ('planted', 'failed', 0)`);
    await again(20);
    expect(await progress.waitFor(at(5), long)).toBe(true);
    expect([...((await progress.read())?.checkpoints.keys() ?? [])].sort()).toEqual(['log', 'tokens']);
  });

  it('ends without success when the service stops', async () => {
    const waiting = progress.waitFor(at(7), long);
    await progress.close();
    expect(await waiting).toBe(false);
    expect(await progress.waitFor(at(5), long)).toBe(false);
  });

  it('begins although the database does not exist yet', async () => {
    await progress.close();
    await pool.query('alter table projections.checkpoint rename to elsewhere');
    await begin();
    const waiting = progress.waitFor(at(5), long);
    await pool.query('alter table projections.elsewhere rename to checkpoint');
    expect(await waiting).toBe(true);
  });
});
