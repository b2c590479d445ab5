import { randomBytes } from 'node:crypto';
import { liveSchema } from '@token-vault/contracts';
import type pg from 'pg';
import { parsePosition, type Position } from '@token-vault/event-store';
import { temporarySchema, type Projection, type Table } from '../projection.ts';
import { stagingTables } from '../runner/staging.ts';
import { releaseLive } from './live.ts';
import { fillToEnd, fillWhileHeld, withSuccessor, type RebuildOptions } from './rebuild.ts';
import { dropSuccessor } from './successor.ts';

export interface TableComparison {
  readonly table: string;
  readonly rows: number;
  /** The number of rows of the live table that the log does not give. */
  readonly surplus: number;
  /** The number of rows that the log gives and the live table does not have. */
  readonly missing: number;
  /** The keys of some of the rows that differ. */
  readonly keys: readonly string[];
}

export interface Verification {
  readonly isEqual: boolean;
  /** The position at which both read models were compared. */
  readonly position: Position;
  readonly tables: readonly TableComparison[];
}

/**
 * Makes the read model again in temporary tables and compares each with the live one, row by row, at one position. The live one
 * is held only for the last few events, and compared in a snapshot. Undefined when cancelled or aborted.
 * @throws as `rebuildProjection`, `temporary_tables_refused`, and EventMissingError when its position lies beyond the head of the log.
 */
export async function verifyProjection(
  projection: Projection,
  options: RebuildOptions,
): Promise<Verification | undefined> {
  const { name } = projection;
  return withSuccessor(projection, 'verify', options, async (filling, holder) => {
    if ((await fillToEnd(filling, () => livePosition(holder.client, name))) !== 'filled') return undefined;
    if ((await fillWhileHeld(filling, holder)) !== 'filled') return undefined;
    const { client } = filling.session;
    await client.query(snapshot);
    const position = await livePosition(client, name);
    await releaseLive(holder);
    const tables: TableComparison[] = [];
    for (const table of [...projection.tables, ...stagingTables])
      tables.push(await compare(client, name, table));
    await client.query('commit');
    const isCancelled = !(await dropSuccessor(holder, name));
    return isCancelled ? undefined : { isEqual: tables.every(isSame), position, tables };
  });
}

/** The comparison reads whole tables. The settings of the session are for statements that find rows by key. */
const snapshot = `begin isolation level repeatable read read only;
  set local enable_seqscan = on; set local enable_hashjoin = on; set local enable_mergejoin = on`;

const isSame = ({ surplus, missing }: TableComparison): boolean => surplus === 0 && missing === 0;

const mostKeys = 20;

/**
 * The text of a row. `t::text` would use a cast that somebody made for the type of the table. Nobody can make one to `record`. Each function and
 * operator of these statements is named with its schema, so that none of another schema is taken for it.
 */
const rowText = 'pg_catalog.textin(pg_catalog.record_out(t))';

/**
 * Two sums of halves of salted hashes of whole rows. The salt is of one verification only: a writer of the database, who sees no parameters of
 * statements, cannot make a row whose hash is that of another.
 */
const checksumOf = (table: string): string =>
  `select pg_catalog.count(*) as rows,
     pg_catalog.concat_ws(' ',
       pg_catalog.sum(pg_catalog.concat('x', pg_catalog.left(h.hash, 16))::pg_catalog.bit(64)::pg_catalog.int8::pg_catalog.numeric),
       pg_catalog.sum(pg_catalog.concat('x', pg_catalog.right(h.hash, 16))::pg_catalog.bit(64)::pg_catalog.int8::pg_catalog.numeric)
     ) as checksum
   from ${table} t, lateral (
     select pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.concat($1::pg_catalog.text, ${rowText}), 'UTF8')), 'hex') as hash
   ) h`;

/** Compares the checksums of both tables, one pass each. Only tables that differ are compared by rows. */
async function compare(
  client: pg.Client,
  name: string,
  { name: table, primaryKey }: Table,
): Promise<TableComparison> {
  const [live, next] = [`${liveSchema(name)}.${table}`, `${temporarySchema}.${table}`];
  const salt = randomBytes(16).toString('hex');
  const checksum = async (of: string) => {
    const { rows } = await client.query<{ rows: string; checksum: string }>(checksumOf(of), [salt]);
    return { rows: Number(rows[0]?.rows ?? 0), checksum: rows[0]?.checksum };
  };
  const [ofLive, ofNext] = [await checksum(live), await checksum(next)];
  if (ofLive.rows === ofNext.rows && ofLive.checksum === ofNext.checksum) {
    return { table, rows: ofLive.rows, surplus: 0, missing: 0, keys: [] };
  }
  const difference = async (from: string, without: string) => {
    const { rows } = await client.query<{ rows: string }>(
      `select pg_catalog.count(*) as rows
         from (select ${rowText} from ${from} t except all select ${rowText} from ${without} t) d`,
    );
    return Number(rows[0]?.rows ?? 0);
  };
  return {
    table,
    rows: ofLive.rows,
    surplus: await difference(live, next),
    missing: await difference(next, live),
    keys: await differingKeys(client, [live, next], primaryKey),
  };
}

/** The keys, as `tenant_id=…, id=…`, of rows that are missing from one of the tables or differ between them. */
async function differingKeys(
  client: pg.Client,
  [one, other]: readonly [string, string],
  primaryKey: readonly string[],
): Promise<string[]> {
  const key = primaryKey.map((column) => `'${column}=', t.${column}`).join(`, ', ', `);
  const of = (table: string) => `select pg_catalog.concat(${key}) as key, ${rowText} as row from ${table} t`;
  const { rows } = await client.query<{ key: string }>(
    `select distinct key from ((${of(one)} except all ${of(other)}) union all (${of(other)} except all ${of(one)})) d
     order by key limit ${mostKeys}`,
  );
  return rows.map((row) => row.key);
}

async function livePosition(client: pg.Client, name: string): Promise<Position> {
  const { rows } = await client.query<{ position: string }>(
    'select position::pg_catalog.text as position from projections.checkpoint where name operator(pg_catalog.=) $1',
    [name],
  );
  return parsePosition(rows[0]?.position ?? '0');
}
