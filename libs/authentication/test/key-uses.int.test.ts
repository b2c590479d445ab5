import { keyRingMigrations } from '@token-vault/crypto';
import { createTestDatabase, createTestPool, waitUntil, type TestDatabase } from '@token-vault/test-support';
import type { Pool } from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { authenticationMigrations, createKeyUses, findLastUses, type KeyUses } from '../src/index.ts';

const tenantId = '11111111-1111-4111-8111-111111111111';
const hash = 'ab'.repeat(32);
const at = (time: string) => new Date(`2030-01-01T${time}Z`);
const longMs = 3_600_000;
const warn = vi.fn();
const logger = { debug: vi.fn(), info: vi.fn(), warn, error: vi.fn() };

let database: TestDatabase;
let pool: Pool;
let statements = 0;

/** A process that writes only when it is closed, unless the test says otherwise. */
const newProcess = (delayMs = longMs): KeyUses =>
  createKeyUses({
    pool: {
      query: ((...given: Parameters<Pool['query']>) => {
        statements += 1;
        return pool.query(...given);
      }) as Pool['query'],
    },
    logger,
    delayMs,
  });
const lastUse = async () => (await findLastUses(pool, [hash])).get(hash);

beforeAll(async () => {
  database = await createTestDatabase();
  pool = createTestPool(database.url);
  for (const { sql } of [...keyRingMigrations, ...authenticationMigrations]) await pool.query(sql);
});
afterAll(async () => {
  await pool.end();
  await database.drop();
});
beforeEach(async () => {
  await pool.query('truncate authentication.key_use, key_ring.tenant_index_key');
  await pool.query(`insert into key_ring.tenant_index_key values ($1, 1, '\\x00', now())`, [tenantId]);
  statements = 0;
  warn.mockClear();
});

describe('the last use of a key', () => {
  it('is the beginning of the hour, written once for any number of uses', async () => {
    const uses = newProcess(0);
    for (const time of ['10:00:01', '10:20:00', '10:59:59']) uses.note(tenantId, hash, at(time));
    await waitUntil(async () => (await lastUse()) !== undefined, { what: 'the write' });
    uses.note(tenantId, hash, at('10:59:59.999'));
    await uses.close();
    expect([await lastUse(), statements]).toEqual(['2030-01-01T10:00:00.000Z', 1]);
  });

  it('is written again in the next hour', async () => {
    const uses = newProcess();
    uses.note(tenantId, hash, at('10:59:59'));
    uses.note(tenantId, hash, at('11:00:00'));
    await uses.close();
    expect(await lastUse()).toBe('2030-01-01T11:00:00.000Z');
  });

  it('is the latest of all processes, also after restarts', async () => {
    const [early, late] = [newProcess(), newProcess()];
    early.note(tenantId, hash, at('10:10:00'));
    late.note(tenantId, hash, at('12:10:00'));
    await late.close();
    await early.close();
    expect(await lastUse()).toBe('2030-01-01T12:00:00.000Z');
    const restarted = newProcess();
    restarted.note(tenantId, hash, at('13:10:00'));
    await restarted.close();
    expect(await lastUse()).toBe('2030-01-01T13:00:00.000Z');
  });

  it('is removed with the keys of the tenant, and a process that writes late does not add it again', async () => {
    const [one, late] = [newProcess(), newProcess()];
    one.note(tenantId, hash, at('10:10:00'));
    late.note(tenantId, hash, at('11:10:00'));
    await one.close();
    await pool.query('delete from key_ring.tenant_index_key where tenant_id = $1', [tenantId]);
    expect(await lastUse()).toBeUndefined();
    await late.close();
    expect([await lastUse(), statements, warn.mock.calls]).toEqual([undefined, 2, []]);
  });

  it('is kept until it can be written', async () => {
    await pool.query('alter table authentication.key_use rename to away');
    const uses = newProcess(0);
    uses.note(tenantId, hash, at('10:10:00'));
    await waitUntil(() => warn.mock.calls.length === 1, { what: 'the failure' });
    await pool.query('alter table authentication.away rename to key_use');
    await uses.close();
    expect(await lastUse()).toBe('2030-01-01T10:00:00.000Z');
  });
});
