import { eventRegistry, ownStreamOf, type VaultEvent } from '@token-vault/contracts';
import { comparePositions, type EventStore, type Position } from '@token-vault/event-store';
import {
  createMemoryEventLog,
  createMemoryEventStore,
  type MemoryEventLog,
} from '@token-vault/event-store/memory';
import { createTestDatabase, createTestPool } from '@token-vault/test-support';
import type pg from 'pg';
import { projectorMigrations } from '../src/migrations.ts';
import { projections as allProjections } from '../src/projections/index.ts';
import type { Projection } from '../src/projection.ts';
import { stagingTables } from '../src/runner/staging.ts';
import { startProjectors, type ProjectorOptions, type Projectors } from '../src/start.ts';

/** A log in memory and a real database, with any number of projectors. */
export interface Vault {
  readonly url: string;
  readonly pool: pg.Pool;
  readonly log: MemoryEventLog;
  readonly store: EventStore;
  append(...events: readonly VaultEvent[]): Promise<Position>;
  start(options?: Partial<ProjectorOptions>): Projectors;
  /** Resolves when these live projections have passed the position. */
  reached(position: Position, names?: readonly string[]): Promise<void>;
  rows<Row extends pg.QueryResultRow>(sql: string, values?: unknown[]): Promise<Row[]>;
  close(): Promise<void>;
}

export async function openVault(): Promise<Vault> {
  const database = await createTestDatabase();
  const pool = createTestPool(database.url);
  for (const { sql } of projectorMigrations) await pool.query(sql);
  const log = createMemoryEventLog();
  const store = createMemoryEventStore({ registry: eventRegistry, log });
  const started: Projectors[] = [];
  const rows = async <Row extends pg.QueryResultRow>(sql: string, values: unknown[] = []) =>
    (await pool.query<Row>(sql, values)).rows;
  return {
    url: database.url,
    pool,
    log,
    store,
    rows,
    async append(...events) {
      let position = await store.head();
      for (const event of events) ({ position } = await store.append(streamOf(event), [event], 'any'));
      return position;
    },
    start(options = {}) {
      const projectors = startProjectors({ store, connectionString: database.url, ...options });
      started.push(projectors);
      return projectors;
    },
    async reached(position, names = allProjections.map(({ name }) => name)) {
      await eventually(async () => {
        const found = await rows<{ name: string; position: string }>(
          'select name, position::text as position from projections.checkpoint where name = any($1)',
          [names],
        );
        return (
          found.length === names.length &&
          found.every((row) => comparePositions(row.position as Position, position) >= 0)
        );
      });
    },
    async close() {
      await Promise.all(started.map((projectors) => projectors.close()));
      await store.close();
      await pool.end();
      await database.drop();
    },
  };
}

/** The projectors leave out an event of a signed entity that is in the stream of another one. */
export const streamOf = (event: VaultEvent): string => ownStreamOf(event)?.stream ?? 'test';

/** Waits until the condition holds; fails after 60 s. */
export async function eventually(condition: () => Promise<boolean> | boolean): Promise<void> {
  const deadline = performance.now() + 60_000;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error('the condition was not met within 60 s');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** All rows of a read model, sorted, table by table. `schema` selects the live tables or those of a rebuild. */
export async function contentOf(vault: Vault, projection: Projection, schema = `rm_${projection.name}`) {
  const content: Record<string, unknown[]> = {};
  for (const { name } of [...projection.tables, ...stagingTables]) {
    content[name] = (
      await vault.rows<{ row: unknown }>(
        `select to_jsonb(t) as row from ${schema}.${name} t order by to_jsonb(t)::text collate "C"`,
      )
    ).map(({ row }) => row);
  }
  return content;
}
