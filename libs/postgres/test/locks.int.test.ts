import { createTestDatabase, createTestPool, waitUntil } from '@token-vault/test-support';
import type pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { lockKeys, tryHold, tryLock, unlock, whileLocked } from '../src/index.ts';

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let pool: pg.Pool;
/** A session of another process. */
let other: pg.PoolClient;
let mine: pg.PoolClient;

beforeEach(async () => {
  database = await createTestDatabase();
  pool = createTestPool(database.url);
  other = await pool.connect();
  mine = await pool.connect();
});

afterEach(async () => {
  other.release(true);
  mine.release(true);
  await pool.end();
  await database.drop();
});

/** The arguments by which released versions take the locks. */
const released = {
  migration: '7310579512035182',
  auditSealer: '7310579512035183',
  rotation: `hashtext('key_ring.rotation'), hashtext('the root key')`,
  commandDatabase: `hashtextextended('vault command database', 0)`,
  projection: `7310580, hashtext('tokens')`,
  task: `7310581, hashtext('housekeeping')`,
  dueWork: `2003133032, hashtext('some id')`,
};

describe('the keys of advisory locks', () => {
  it.each([
    ['migrations', lockKeys.migration, released.migration],
    ['the sealer of the log', lockKeys.auditSealer, released.auditSealer],
    ['a rotation', lockKeys.rotation('the root key'), released.rotation],
    ['a command', lockKeys.commandDatabase, released.commandDatabase],
  ])('are those of earlier releases: %s', async (_what, key, args) => {
    await other.query(`select pg_advisory_lock(${args})`);
    expect(await tryLock(mine, key)).toBe(false);
    await other.query(`select pg_advisory_unlock(${args})`);
    expect(await tryLock(mine, key)).toBe(true);
    await unlock(mine, key);
    expect(await tryLock(other, key)).toBe(true);
  });

  it.each([
    ['a projection', lockKeys.projection('tokens'), released.projection],
    ['a task', lockKeys.task('housekeeping'), released.task],
    ['due work', lockKeys.dueWork('some id'), released.dueWork],
  ])('are those of earlier releases, with heartbeats: %s', async (_what, key, args) => {
    await other.query(`select pg_advisory_lock(${args})`);
    expect(await tryHold(mine, key)).toBe(false);
    await other.query(`select pg_advisory_unlock(${args})`);
    expect(await tryHold(mine, key)).toBe(true);
    await unlock(mine, key);
    expect(await tryHold(other, key)).toBe(true);
  });
});

describe('work under a lock', () => {
  const key = lockKeys.rotation('the root key');

  it('is not done while another session holds the lock, and is done afterwards', async () => {
    await tryLock(other, key);
    const work = () => whileLocked(pool, key, async () => 'done', { isHeld: () => 'held' });
    expect(await work()).toBe('held');
    await unlock(other, key);
    expect(await work()).toBe('done');
  });

  it('waits for a lock that is about to be released', async () => {
    await tryLock(other, key);
    const work = whileLocked(pool, key, async () => 'done', { waitMs: 600_000, isHeld: () => 'held' });
    await unlock(other, key);
    expect(await work).toBe('done');
  });

  it('leaves no lock when it fails', async () => {
    const failing = () => Promise.reject(new Error('failed'));
    const isHeld = () => Promise.reject(new Error('held'));
    await expect(whileLocked(pool, key, failing, { isHeld })).rejects.toThrow('failed');
    await waitUntil(() => tryLock(other, key));
  });
});
