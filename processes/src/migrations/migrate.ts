import { createHash } from 'node:crypto';
import { lock, lockKeys, unlock } from '@token-vault/postgres';
import pg from 'pg';
import {
  MigrationError,
  RestoreUnfinishedError,
  SchemaMismatchError,
  SchemaTooNewError,
  SchemaUnknownError,
} from './errors.ts';

/** One numbered step. Released steps never change: a checksum covers their text (except line endings). */
export interface Migration {
  readonly id: number;
  readonly name: string;
  readonly sql: string;
}

/** The steps of one package, with their own numbers, ascending. */
export interface MigrationSet {
  readonly name: string;
  readonly migrations: readonly Migration[];
}

/**
 * Recorded while a backup is being restored. A start does not know this set, and so refuses a half-restored database.
 */
export const unfinishedRestore: MigrationSet = {
  name: 'unfinished restore',
  migrations: [{ id: 1, name: 'mark', sql: '-- removed when the restore is complete' }],
};

/** Removes the mark of an unfinished restore. From now on the database is a vault. */
export async function finishRestore(client: Pick<pg.ClientBase, 'query'>): Promise<void> {
  await client.query('delete from vault_schema where set = $1', [unfinishedRestore.name]);
}

interface Applied {
  readonly set: string;
  readonly id: number;
  readonly name: string;
  readonly checksum: string;
}

/**
 * Brings the database to this release's schema. It changes nothing when the database has it already. Processes that
 * start together wait for each other. Each step is one transaction with its record. All sets are checked before the
 * first step is applied.
 *
 * Takes a URL, or a client with its own session (not through a pooler in transaction mode: the lock belongs to the
 * session).
 * @throws SchemaTooNewError, SchemaUnknownError when a newer release changed the database. @throws
 * RestoreUnfinishedError when only a part of a backup was loaded. @throws SchemaMismatchError when an applied step
 * differs from the given one. @throws MigrationError when a step fails.
 */
export async function migrate(
  database: string | pg.ClientBase,
  sets: readonly MigrationSet[],
): Promise<void> {
  for (const set of sets) requireAscending(set);
  if (typeof database !== 'string') return migrateLocked(database, sets);
  const client = new pg.Client(database);
  client.on('error', () => {});
  await client.connect();
  try {
    await migrateLocked(client, sets);
  } finally {
    await client.end();
  }
}

/**
 * Whether the database has this release's schema. Changes nothing. False while a step is missing.
 * @throws SchemaTooNewError, SchemaMismatchError as `migrate`
 */
export async function isMigrated(client: pg.ClientBase, sets: readonly MigrationSet[]): Promise<boolean> {
  const { rows: found } = await client.query(`select to_regclass('vault_schema') is not null as is_there`);
  if ((found[0] as { is_there?: boolean } | undefined)?.is_there !== true) return false;
  const { rows } = await client.query<Applied>(
    'select set, id, name, checksum from vault_schema order by set, id',
  );
  requireKnown(sets, rows);
  return sets.every((set) => pendingOf(set, rows).length === 0);
}

async function migrateLocked(client: pg.ClientBase, sets: readonly MigrationSet[]): Promise<void> {
  await lock(client, lockKeys.migration);
  try {
    await client.query(`create table if not exists vault_schema (
      set text not null, id integer not null, name text not null, checksum text not null,
      applied_at timestamptz not null default now(), primary key (set, id))`);
    const { rows } = await client.query<Applied>(
      'select set, id, name, checksum from vault_schema order by set, id',
    );
    requireKnown(sets, rows);
    const pending = sets.map((set) => ({ set, steps: pendingOf(set, rows) }));
    for (const { set, steps } of pending) {
      for (const step of steps) await apply(client, set, step);
    }
  } finally {
    // A broken connection has released its lock already. Its own error must be the one that is reported.
    await unlock(client, lockKeys.migration).catch(() => undefined);
  }
}

function requireKnown(sets: readonly MigrationSet[], rows: readonly Applied[]): void {
  const known = new Set(sets.map(({ name }) => name));
  const unknown = rows.find(({ set }) => !known.has(set))?.set;
  if (unknown === unfinishedRestore.name) throw new RestoreUnfinishedError();
  if (unknown !== undefined) throw new SchemaUnknownError(unknown);
}

function pendingOf(set: MigrationSet, rows: readonly Applied[]): readonly Migration[] {
  const applied = rows.filter((row) => row.set === set.name);
  const last = applied.at(-1)?.id ?? 0;
  const known = set.migrations.at(-1)?.id ?? 0;
  if (last > known) throw new SchemaTooNewError(set.name, last, known);
  const byId = new Map(applied.map((row) => [row.id, row]));
  for (const migration of set.migrations.filter(({ id }) => id <= last)) {
    const row = byId.get(migration.id);
    byId.delete(migration.id);
    if (row?.checksum === checksumOf(migration)) continue;
    const what = row
      ? `was applied with another text`
      : `is older than ${last}, the last applied, but was not applied`;
    throw new SchemaMismatchError(`migration ${label(set, migration)} ${what}`);
  }
  for (const row of byId.values()) {
    throw new SchemaMismatchError(
      `migration ${label(set, row)} was applied, but this release has none of that number`,
    );
  }
  return set.migrations.filter(({ id }) => id > last);
}

async function apply(client: pg.ClientBase, set: MigrationSet, migration: Migration): Promise<void> {
  try {
    await client.query('begin');
    await client.query(migration.sql);
    await client.query('insert into vault_schema (set, id, name, checksum) values ($1, $2, $3, $4)', [
      set.name,
      migration.id,
      migration.name,
      checksumOf(migration),
    ]);
    await client.query('commit');
  } catch (error) {
    await client.query('rollback').catch(() => undefined);
    throw new MigrationError(label(set, migration), error);
  }
}

function requireAscending(set: MigrationSet): void {
  let previous = 0;
  for (const migration of set.migrations) {
    if (!Number.isSafeInteger(migration.id) || migration.id <= previous) {
      throw new SchemaMismatchError(`migration ${label(set, migration)} is out of order: ids ascend from 1`);
    }
    previous = migration.id;
  }
}

/** Line endings are left out, so that a checkout with CRLF has the same checksum. */
function checksumOf(migration: Migration): string {
  return createHash('sha256').update(migration.sql.replaceAll('\r\n', '\n')).digest('hex');
}

function label(set: { readonly name: string }, step: { readonly id: number; readonly name: string }): string {
  return `${set.name}/${step.id} (${step.name})`;
}
