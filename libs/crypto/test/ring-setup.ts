import { randomBytes, randomUUID } from 'node:crypto';
import type { Pool } from 'pg';
import { createTestDatabase, createTestPool, manualClock, type ManualClock } from '@token-vault/test-support';
import {
  createKeyRing,
  environmentRootKey,
  keyRingMigrations,
  type KeyRing,
  type KeyRingOptions,
  type RootKeyProvider,
} from '../src/index.ts';

export interface RingSetup {
  readonly pool: Pool;
  readonly clock: ManualClock;
  readonly rootKey: RootKeyProvider;
  /** The ring of another replica on the same database. */
  ring(options?: Partial<KeyRingOptions>): Promise<KeyRing>;
  /** A tenant with keys. */
  tenant(ring: KeyRing): Promise<string>;
  end(): Promise<void>;
}

const template = {
  name: `key-ring-${keyRingMigrations.length}-${keyRingMigrations.map(({ sql }) => sql.length).join('-')}`,
  fill: async (url: string): Promise<void> => {
    const pool = createTestPool(url);
    for (const { sql } of keyRingMigrations) await pool.query(sql);
    await pool.end();
  },
};

export const randomRootKey = (): RootKeyProvider => environmentRootKey(randomBytes(32).toString('hex'));

export async function setUpRing(): Promise<RingSetup> {
  const database = await createTestDatabase({ template });
  // As in production, independent of the settings of the test server: some tests are about durability.
  const url = new URL(database.url);
  url.searchParams.set('options', '-c synchronous_commit=on');
  const pool = createTestPool(url.href, { max: 10 });
  const clock = manualClock();
  const rootKey = randomRootKey();
  return {
    pool,
    clock,
    rootKey,
    ring: (options) => createKeyRing({ pool, clock, rootKey, durability: 'own', ...options }),
    async tenant(ring) {
      const tenantId = randomUUID();
      await ring.createTenantKeys(tenantId);
      return tenantId;
    },
    async end() {
      await pool.end();
      await database.drop();
    },
  };
}

/** Counts the statements of the pool from now on. */
export function countStatements(pool: Pool): { stop(): number } {
  const original = pool.query.bind(pool) as (...input: unknown[]) => unknown;
  let count = 0;
  Object.assign(pool, {
    query: (...input: unknown[]) => {
      count += 1;
      return original(...input);
    },
  });
  return {
    stop() {
      Reflect.deleteProperty(pool, 'query');
      return count;
    },
  };
}
