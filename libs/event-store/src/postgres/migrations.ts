import { eventHistory } from '@token-vault/contracts';
import { readFileSync } from 'node:fs';
import { VaultClient } from '@token-vault/postgres';
import type pg from 'pg';

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
export const eventStoreMigrations: readonly Migration[] = [
  migration(1, 'event-log'),
  migration(2, 'data-is-not-compressed'),
  migration(3, 'positions-begin-at-1'),
  migration(4, 'head-never-falls'),
];

/**
 * These migrations change nothing. The migration runner records them, so a release without one of them refuses a log that may hold events
 * of a newer release.
 */
export const eventHistoryMigrations: readonly Migration[] = eventHistory.map((added, index) => ({
  id: index + 1,
  name: 'event schemas',
  sql: `-- ${added.join(', ')}`,
}));

/**
 * Applies every migration to a database that has none of them, in one transaction. For tests and benchmarks: an installation applies
 * `eventStoreMigrations` with its migration runner, which records them.
 */
export async function createEventStoreSchema(connection: pg.ClientConfig): Promise<void> {
  const client = new VaultClient(connection);
  await client.connect();
  try {
    await client.query(['begin', ...eventStoreMigrations.map(({ sql }) => sql), 'commit'].join(';\n'));
  } finally {
    await client.end();
  }
}
