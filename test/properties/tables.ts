import { comparePositions, parsePosition, type EventStore } from '@token-vault/event-store';
import { projections } from '@token-vault/projectors';
import { waitUntil } from '@token-vault/test-support';
import type { Pool } from 'pg';

/** Rows of each table as text, sorted by their bytes. */
export type Content = Readonly<Record<string, readonly string[]>>;

/**
 * The batch ends decide when an ended transaction is forgotten. Its row makes no difference to later events, because
 * none can come a week after.
 */
const dependsOnBatches = 'closed_transaction';

/** All tables of a read model, staged events included. They are found in the catalogue and not in the projection. */
export async function contentOf(pool: Pool, projection: string): Promise<Content> {
  const { rows: tables } = await pool.query<{ name: string }>(
    'select tablename as name from pg_tables where schemaname = $1 and tablename <> $2 order by 1',
    [`rm_${projection}`, dependsOnBatches],
  );
  const content: Record<string, string[]> = {};
  for (const { name } of tables) {
    const { rows } = await pool.query<{ row: string }>(
      `select t::text as row from rm_${projection}.${name} t order by t::text collate "C"`,
    );
    content[name] = rows.map(({ row }) => row);
  }
  return content;
}

export async function contentOfAll(pool: Pool): Promise<Readonly<Record<string, Content>>> {
  const contents: Record<string, Content> = {};
  for (const { name } of projections) contents[name] = await contentOf(pool, name);
  return contents;
}

interface CheckpointRow {
  readonly name: string;
  readonly position: string;
  readonly status: string;
}

export async function checkpointsOf(pool: Pool): Promise<readonly CheckpointRow[]> {
  const { rows } = await pool.query<CheckpointRow>(
    'select name, position::text, status from projections.checkpoint order by name',
  );
  return rows;
}

/** Waits until every live projection has applied the present log. */
export async function caughtUp(store: EventStore, pools: readonly Pool[]): Promise<void> {
  const head = await store.head();
  const isThere = async (pool: Pool) => {
    const found = await checkpointsOf(pool);
    return (
      found.length === projections.length &&
      found.every(({ position }) => comparePositions(parsePosition(position), head) >= 0)
    );
  };
  for (const pool of pools)
    await waitUntil(() => isThere(pool), { timeoutMs: 60_000, what: `projections at ${head}` });
}

export type Damage = 'plant' | 'alter' | 'drop';

/** A different value of the same type. */
const mutations: Readonly<Record<string, (column: string) => string>> = {
  uuid: () => 'gen_random_uuid()',
  text: (column) => `${column} || 'x'`,
  'text[]': (column) => `array_append(${column}, 'x')`,
  bigint: (column) => `${column} + 1000000`,
  integer: (column) => `${column} + 1000000`,
  boolean: (column) => `not ${column}`,
  jsonb: (column) => `jsonb_build_object('was', ${column})`,
  'timestamp with time zone': (column) => `${column} + interval '1 microsecond'`,
};

/**
 * Plants, changes or drops a row, with triggers off. Gives the table, or undefined when the read model is empty.
 * `pick` chooses among all tables with rows, their rows and columns.
 */
export async function damage(
  pool: Pool,
  projection: string,
  how: Damage,
  pick: number,
): Promise<string | undefined> {
  const content = Object.entries(await contentOf(pool, projection)).filter(
    ([name, rows]) => rows.length > 0 && name !== 'staged_event',
  );
  const [table, rows] = content[pick % Math.max(1, content.length)] ?? [];
  if (table === undefined || rows === undefined) return undefined;
  const name = `rm_${projection}.${table}`;
  const row = `ctid = (select ctid from ${name} order by ctid limit 1 offset ${pick % rows.length})`;
  const columns = await mutatedColumns(pool, name, row);
  const altered = columns
    .filter(({ isNull }) => !isNull)
    .map(({ column, mutated }) => `${column} = ${mutated}`);
  const statements = {
    plant: `insert into ${name} select ${columns.map(({ mutated }) => mutated).join(', ')} from ${name} where ${row}`,
    alter: `update ${name} set ${altered[pick % altered.length]} where ${row}`,
    drop: `delete from ${name} where ${row}`,
  };
  await pool.query(`begin; set local session_replication_role = replica; ${statements[how]}; commit`);
  return table;
}

async function mutatedColumns(pool: Pool, table: string, row: string) {
  const { rows: columns } = await pool.query<{ name: string; type: string }>(
    `select attname as name, format_type(atttypid, null) as type from pg_attribute
      where attrelid = $1::regclass and attnum > 0 order by attnum`,
    [table],
  );
  const { rows } = await pool.query<{ value: Record<string, unknown> }>(
    `select to_jsonb(t) as value from ${table} t where ${row}`,
  );
  return columns.map(({ name: column, type }) => {
    const mutate = mutations[type];
    if (!mutate) throw new Error(`no other value of type ${type} is known`);
    return { column, mutated: mutate(column), isNull: rows[0]?.value[column] === null };
  });
}
