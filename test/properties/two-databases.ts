import { randomUUID } from 'node:crypto';
import { startHousekeeping, type Housekeeping } from '@token-vault/command-service';
import { eventRegistry } from '@token-vault/contracts';
import type { EventStore } from '@token-vault/event-store';
import { createEventStoreDbEventStore } from '@token-vault/event-store/eventstoredb';
import { createEventStoreSchema, createPostgresEventStore } from '@token-vault/event-store/postgres';
import { projectorMigrations, startProjectors } from '@token-vault/projectors';
import { silentLogger } from '@token-vault/observability';
import {
  createTestDatabase,
  createTestPool,
  manualClock,
  startEventStoreDouble,
  testStack,
} from '@token-vault/test-support';
import type { Pool } from 'pg';
import { AnyRun } from './any-run.ts';
import { openCommands } from './command-world.ts';

/**
 * A vault on one database, where two processes project and all faults happen. The same log is projected into another
 * database by one process without faults or rebuilds. Both databases must hold the same rows.
 */
export interface TwoDatabases {
  readonly url: string;
  readonly pool: Pool;
  readonly reference: Pool;
  readonly store: EventStore;
  /** A tenant with keys and no entities. */
  newRun(): Promise<AnyRun>;
  /** Cuts the connections of that name. True when there was one. */
  cut(name: string): Promise<boolean>;
  close(): Promise<void>;
}

/** In Postgres, or with `VAULT_TEST_STACK=eventstoredb` in the double of EventStoreDB. */
async function openLog(connectionString: string): Promise<{ store: EventStore; stop: () => Promise<void> }> {
  if (testStack.startsWith('eventstoredb')) {
    const server = await startEventStoreDouble();
    const options = { registry: eventRegistry, connectionString: server.connectionString };
    return { store: createEventStoreDbEventStore(options), stop: () => server.stop() };
  }
  await createEventStoreSchema({ connectionString });
  const store = createPostgresEventStore({ registry: eventRegistry, connection: { connectionString } });
  return { store, stop: async () => undefined };
}

export async function openTwoDatabases(): Promise<TwoDatabases> {
  const [database, other] = await Promise.all([createTestDatabase(), createTestDatabase()]);
  const connection = { connectionString: database.url };
  const { store, stop } = await openLog(database.url);
  const pool = createTestPool(database.url, { max: 8 });
  const reference = createTestPool(other.url, { max: 2 });
  for (const { sql } of projectorMigrations) await reference.query(sql);
  const clock = manualClock();
  const { keyRing, call } = await openCommands(pool, store, clock);
  const common = { store, keyRing, pool, clock, logger: silentLogger, ...connection };
  // Entities end only when a step ends them, because the compared state must not change.
  const housekeeping: Housekeeping = startHousekeeping({ ...common, intervalMs: 86_400_000 });
  const projectors = [
    startProjectors({ store, connectionString: database.url, maxBatch: 3 }),
    startProjectors({ store, connectionString: database.url, maxBatch: 50 }),
    startProjectors({ store, connectionString: other.url }),
  ];
  return {
    url: database.url,
    pool,
    reference,
    store,
    async newRun() {
      const tenantId = randomUUID();
      await keyRing.createTenantKeys(tenantId);
      return new AnyRun({ call, store, clock, sweep: housekeeping.runOnce }, tenantId);
    },
    async cut(name) {
      const { rowCount } = await pool.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and application_name = $1`,
        [name],
      );
      return (rowCount ?? 0) > 0;
    },
    async close() {
      await housekeeping.close();
      await Promise.all(projectors.map((each) => each.close()));
      await store.close();
      await stop();
      await pool.end();
      await reference.end();
      await Promise.all([database.drop(), other.drop()]);
    },
  };
}
