import { temporarySchema, type Index, type Projection, type Table } from '../projection.ts';
import { stagingTables } from './staging.ts';

const namePattern = /^[a-z][a-z_]*$/;

/**
 * The script that makes a projection's tables in `schema`, for one transaction. It leaves `search_path` at the schema
 * until the transaction ends. `for filling`: without the indexes that only readers need. They are made faster, and
 * smaller, over existing rows.
 */
export function schemaSql(projection: Projection, schema: string, indexes: 'all' | 'for filling'): string {
  if (!namePattern.test(projection.name)) throw new TypeError('a projection is named in lower case');
  const isMade = (index: Index): boolean => indexes === 'all' || index.isForReaders !== true;
  const tables = [...projection.tables, ...stagingTables];
  return [
    ...(schema === temporarySchema ? [] : [`create schema ${schema}`]),
    `set local search_path = ${schema}`,
    ...tables.flatMap((table) => [tableSql(table), ...indexesOf(table).filter(isMade).map(indexSql(table))]),
    ...(projection.ddl?.(schema) ?? []),
  ].join(';\n');
}

/** The script that makes the readers' indexes when the tables of `schema` are full. Also for one transaction. */
export function readerIndexesSql({ tables }: Projection, schema: string): string {
  return [
    `set local search_path = ${schema}`,
    ...tables.flatMap((table) => readerIndexesOf(table).map(indexSql(table))),
    // Without `analyze` the planner would guess for the first readers, until autovacuum runs.
    ...tables.map(({ name }) => `analyze ${name}`),
  ].join(';\n');
}

export const countReaderIndexes = ({ tables }: Projection): number => tables.flatMap(readerIndexesOf).length;

/** Counts primary keys too, and the tables that the runner adds. */
export const countIndexes = ({ tables }: Projection): number =>
  [...tables, ...stagingTables].reduce((sum, table) => sum + 1 + indexesOf(table).length, 0);

const indexesOf = (table: Table): readonly Index[] => table.indexes ?? [];
const readerIndexesOf = (table: Table): readonly Index[] =>
  indexesOf(table).filter(({ isForReaders }) => isForReaders === true);

function tableSql({ name, columns, primaryKey, primaryKeyIncludes = [], sealedColumns = [] }: Table): string {
  const definitions = Object.entries(columns).map(([column, type]) => `${column} ${type}`);
  const included = primaryKeyIncludes.length > 0 ? ` include (${primaryKeyIncludes.join(', ')})` : '';
  const key = `primary key (${primaryKey.join(', ')})${included}`;
  const table = `create table ${name} (\n  ${[...definitions, key].join(',\n  ')}\n)`;
  return [
    table,
    ...sealedColumns.map((column) => `alter table ${name} alter column ${column} set statistics 0`),
  ].join(';\n');
}

const indexSql =
  (table: Table) =>
  ({ on, isUnique }: Index): string =>
    `create ${isUnique ? 'unique ' : ''}index on ${table.name} ${on}`;
