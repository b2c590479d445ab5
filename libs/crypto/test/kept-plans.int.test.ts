import { keepIndexPlans } from '@token-vault/postgres';
import { createTestPool } from '@token-vault/test-support';
import type pg from 'pg';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { KeyRing } from '../src/index.ts';
import { setUpRing, type RingSetup } from './ring-setup.ts';

let setup: RingSetup;
/** A pool with one session, whose plans the test can read. */
let pool: pg.Pool;
let ring: KeyRing;
let tenantId: string;

beforeEach(async () => {
  setup = await setUpRing();
  const connectionString = setup.pool.options.connectionString ?? '';
  pool = createTestPool(connectionString, { max: 1, onConnect: keepIndexPlans });
  ring = await setup.ring({ pool });
  tenantId = await setup.tenant(ring);
});
afterEach(async () => {
  await pool.end();
  await setup.end();
});

async function useKeys(count: number): Promise<void> {
  const keys = await Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const { key, stored } = await ring.createDataKey({
        tenantId,
        entity: `token:${index}`,
        purpose: 'data',
      });
      await stored;
      return key;
    }),
  );
  await Promise.all(keys.map(({ id }) => ring.destroyKeys(tenantId, [id])));
  await Promise.all(keys.map(({ id }) => ring.destroyKeysOfEntity(tenantId, `token:${id}`)));
}

it('statements of a session that keeps its plans are planned once, however many keys they are for', async () => {
  for (const count of [1, 2, 1, 30, 3, 1, 2, 12]) await useKeys(count);
  const { rows } = await pool.query<{ name: string; custom_plans: string; generic_plans: string }>(
    `select name, custom_plans::text, generic_plans::text from pg_prepared_statements where name like 'key_ring_%'`,
  );
  expect(rows.map(({ name }) => name)).toContain('key_ring_insert_data_keys');
  expect(rows.map(({ name }) => name)).toContain('key_ring_destroy_by_id');
  for (const row of rows) expect([row.name, row.custom_plans]).toEqual([row.name, '0']);
});

it.each([
  ['id', 'data_key_pkey', '{00000000-0000-4000-8000-000000000001}'],
  ['entity', 'data_key_by_entity', '{token:1}'],
])('a plan made while there were no keys destroys by %s with the index %s', async (by, index, names) => {
  await useKeys(1);
  const { rows } = await pool.query<{ 'QUERY PLAN': string }>(
    `explain execute "key_ring_destroy_by_${by}" ('{${tenantId}}', '${names}')`,
  );
  const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
  expect(plan).toMatch(new RegExp(`Index( Only)? Scan (using|on) ${index}`));
  expect(plan.replaceAll(index, '')).not.toMatch(/Seq Scan|data_key_by|Hash Join|Merge Join/);
});
