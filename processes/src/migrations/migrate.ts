import { lock, lockKeys, unlock, VaultClient } from '@token-vault/postgres';
import knex, { type Knex } from 'knex';
import type pg from 'pg';
import {
  checksumOf,
  migrationTable,
  readApplied,
  recordOf,
  recordsOfKnex,
  takeOver,
  type Applied,
  type MigrationSet,
} from './applied.ts';
import {
  MigrationError,
  RestoreUnfinishedError,
  SchemaMismatchError,
  SchemaTooNewError,
  SchemaUnknownError,
} from './errors.ts';

/**
 * Recorded while a backup is being restored. A start does not know this set, and so refuses a half-restored database.
 */
export const unfinishedRestore: MigrationSet = {
  name: 'unfinished restore',
  migrations: [{ id: 1, name: 'mark', sql: '-- removed when the restore is complete' }],
};

/** Removes the mark of an unfinished restore. From now on the database is a vault. */
export async function finishRestore(client: Pick<pg.ClientBase, 'query'>): Promise<void> {
  const marks = stepsOf(unfinishedRestore).map(recordOf);
  await client.query(`delete from ${migrationTable} where name = any($1::text[])`, [marks]);
}

/** A step of a set, as it is recorded. */
interface Step extends Applied {
  readonly sql: string;
}

const stepsOf = ({ name: set, migrations }: MigrationSet): Step[] =>
  migrations.map((step) => ({ ...step, set, checksum: checksumOf(step) }));

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
  const client = new VaultClient(database);
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
export async function isMigrated(
  client: Pick<pg.ClientBase, 'query'>,
  sets: readonly MigrationSet[],
): Promise<boolean> {
  const applied = await readApplied(client);
  if (!applied) return false;
  requireKnown(sets, applied);
  return sets.every((set) => pendingOf(set, applied).length === 0);
}

/** Knex runs the steps on this session. It opens no connections, and its messages are our errors. */
function knexOn(client: pg.ClientBase): Knex {
  const silent = () => undefined;
  const on = knex({ client: 'pg', log: { warn: silent, error: silent, debug: silent, deprecate: silent } });
  return Object.assign(on, {
    client: Object.assign(on.client as object, {
      acquireConnection: () => Promise.resolve(client),
      releaseConnection: () => Promise.resolve(),
    }),
  });
}

/** The text of a step runs on the session as it is: Knex would take `?` for a parameter, also in comments. */
const configOf = (client: pg.ClientBase, steps: readonly Step[]): Knex.MigratorConfig => ({
  ...recordsOfKnex,
  // The checks of this file say more, and come before the first step.
  disableMigrationsListValidation: true,
  migrationSource: {
    getMigrations: () => Promise.resolve([...steps]),
    getMigrationName: recordOf,
    getMigration: ({ sql }: Step) =>
      Promise.resolve({ up: () => client.query(sql), down: () => Promise.reject(new Error('only forward')) }),
  },
});

/** The lock of Postgres ends with the session, however that ends. The one of Knex alone does not cover its first start. */
async function migrateLocked(client: pg.ClientBase, sets: readonly MigrationSet[]): Promise<void> {
  await lock(client, lockKeys.migration);
  try {
    const migrator = knexOn(client).migrate;
    // Makes the tables of Knex.
    await migrator.list(configOf(client, []));
    await takeOver(client);
    const applied = (await readApplied(client)) ?? [];
    requireKnown(sets, applied);
    const pending = sets.flatMap((set) => pendingOf(set, applied));
    for (const step of pending) {
      try {
        await migrator.up(configOf(client, [step]));
      } catch (error) {
        throw new MigrationError(label(step), error);
      }
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

function pendingOf(set: MigrationSet, rows: readonly Applied[]): readonly Step[] {
  const applied = rows.filter((row) => row.set === set.name);
  const last = applied.at(-1)?.id ?? 0;
  const known = set.migrations.at(-1)?.id ?? 0;
  if (last > known) throw new SchemaTooNewError(set.name, last, known);
  const steps = stepsOf(set);
  const byId = new Map(applied.map((row) => [row.id, row]));
  for (const step of steps.filter(({ id }) => id <= last)) {
    const row = byId.get(step.id);
    byId.delete(step.id);
    if (row?.checksum === step.checksum) continue;
    const what = row
      ? `was applied with another text`
      : `is older than ${last}, the last applied, but was not applied`;
    throw new SchemaMismatchError(`migration ${label(step)} ${what}`);
  }
  for (const row of byId.values())
    throw new SchemaMismatchError(
      `migration ${label(row)} was applied, but this release has no migration of that number`,
    );
  return steps.filter(({ id }) => id > last);
}

function requireAscending(set: MigrationSet): void {
  let previous = 0;
  for (const migration of set.migrations) {
    if (!Number.isSafeInteger(migration.id) || migration.id <= previous)
      throw new SchemaMismatchError(
        `migration ${label({ ...migration, set: set.name })} is out of order: ids ascend from 1`,
      );
    previous = migration.id;
  }
}

const label = ({ set, id, name }: Pick<Applied, 'set' | 'id' | 'name'>): string => `${set}/${id} (${name})`;
