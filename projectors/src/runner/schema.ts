import type { Projection, Table } from '../projection.ts';
import { stagingTables } from './staging.ts';

const namePattern = /^[a-z][a-z_]*$/;

/** The script that makes a projection's tables in `schema`, for one transaction; leaves `search_path` there until it ends. */
export function schemaSql(projection: Projection, schema: string): string {
  if (!namePattern.test(projection.name)) throw new TypeError('a projection is named in lower case');
  return [
    `create schema ${schema}`,
    `set local search_path = ${schema}`,
    ...[...projection.tables, ...stagingTables].flatMap(tableSql),
    ...(projection.ddl ?? []),
  ].join(';\n');
}

function tableSql(table: Table): string[] {
  const columns = Object.entries(table.columns).map(([name, type]) => `${name} ${type}`);
  const primaryKey = `primary key (${table.primaryKey.join(', ')})`;
  return [
    `create table ${table.name} (\n  ${[...columns, primaryKey].join(',\n  ')}\n)`,
    ...(table.indexes ?? []).map(
      ({ on, isUnique }) => `create ${isUnique ? 'unique ' : ''}index on ${table.name} ${on}`,
    ),
  ];
}
