import { readFileSync } from 'node:fs';
import pg from 'pg';

export interface Migration {
  /** Ascending; a released migration is never edited. */
  readonly id: number;
  readonly name: string;
  /** Statements to run in one transaction. */
  readonly sql: string;
}

function migration(id: number, name: string): Migration {
  const file = `./migrations/${String(id).padStart(3, '0')}-${name}.sql`;
  return { id, name, sql: readFileSync(new URL(file, import.meta.url), 'utf8') };
}

/** The schema `event_store`, step by step. */
export const eventStoreMigrations: readonly Migration[] = [migration(1, 'event-log')];

/**
 * Applies every migration to a database that has none of them, in one transaction. For tests and benchmarks:
 * an installation applies `eventStoreMigrations` with its migration runner, which remembers what was applied.
 */
export async function createEventStoreSchema(connection: pg.ClientConfig): Promise<void> {
  const client = new pg.Client(connection);
  await client.connect();
  try {
    await client.query(['begin', ...eventStoreMigrations.map(({ sql }) => sql), 'commit'].join(';\n'));
  } finally {
    await client.end();
  }
}
