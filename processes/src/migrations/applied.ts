import { createHash } from 'node:crypto';
import type pg from 'pg';

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

/** A step that the database has. */
export interface Applied {
  readonly set: string;
  readonly id: number;
  readonly name: string;
  readonly checksum: string;
}

/** The schema and the name of the table in which Knex records steps. Its lock table has this name with `_lock`. */
export const recordsOfKnex = { schemaName: 'public', tableName: 'schema_migration' };
export const migrationTable = `${recordsOfKnex.schemaName}.${recordsOfKnex.tableName}`;
/** The table of releases before Knex. It stays, so that such a release still refuses the database. */
const formerTable = 'public.vault_schema';
export const migrationTables = [migrationTable, `${migrationTable}_lock`, formerTable];

/** Line endings are left out, so that a checkout with CRLF has the same checksum. */
export const checksumOf = ({ sql }: Migration): string =>
  createHash('sha256').update(sql.replaceAll('\r\n', '\n')).digest('hex');

/** The name of a step in Knex' table. It has all that is known of the step. */
export const recordOf = ({ set, id, name, checksum }: Applied): string =>
  `${set}/${id} (${name}) ${checksum}`;

function parse(record: string): Applied {
  const [, set, id, name, checksum] = /^(.*)\/(\d+) \((.*)\) (\S+)$/s.exec(record) ?? [];
  if (set === undefined || name === undefined || checksum === undefined)
    return { set: record, id: 0, name: '', checksum: '' };
  return { set, id: Number(id), name, checksum };
}

type Client = Pick<pg.ClientBase, 'query'>;

async function isTable(client: Client, name: string): Promise<boolean> {
  const text = 'select to_regclass($1) is not null as is_there';
  const { rows } = await client.query<{ is_there: boolean }>(text, [name]);
  return rows[0]?.is_there === true;
}

/** The applied steps, by set and number. Undefined when this release has never migrated the database. */
export async function readApplied(client: Client): Promise<readonly Applied[] | undefined> {
  if (!(await isTable(client, migrationTable))) return undefined;
  const { rows } = await client.query<{ name: string }>(`select name from ${migrationTable}`);
  return rows.map(({ name }) => parse(name)).sort((one, other) => one.id - other.id);
}

/** Whether a vault of any release has made tables in the database. */
export const hasMigrations = async (client: Client): Promise<boolean> =>
  (await isTable(client, migrationTable)) || (await isTable(client, formerTable));

/**
 * Records in Knex' table what a release before Knex has applied, once and in one statement. Changes no other table. The old table gets
 * a row that such a release does not know, so that it refuses to start on tables that may have changed since.
 */
export async function takeOver(client: Client): Promise<void> {
  if (!(await isTable(client, formerTable))) return;
  const { rows } = await client.query<Applied>(
    `select set, id, name, checksum from ${formerTable} order by applied_at, set, id`,
  );
  if (rows.some(({ set }) => set === recordsOfKnex.tableName)) return;
  await client.query(
    `with taken as (
      insert into ${migrationTable} (name, batch, migration_time)
      select record, 0, now() from unnest($1::text[]) with ordinality as r (record, number) order by number
    )
    insert into ${formerTable} (set, id, name, checksum) values ($2, 1, 'recorded elsewhere', '')`,
    [rows.map(recordOf), recordsOfKnex.tableName],
  );
}
