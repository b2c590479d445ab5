import knex, { type Knex } from 'knex';
import type { QueryConfig } from 'pg';

/**
 * Composes statements whose conditions depend on the request (ADR 35). It has no connections: `compile` gives the
 * statement to node-postgres. Values become parameters. Only literals of the program and names of `aliased` become text.
 */
export const db = knex({ client: 'pg' });

/** A piece of SQL with its parameters. */
export type Sql = Knex.Raw;
type Binding = Knex.RawBinding;

/** `?` in the text stands for a value, or for another piece or a query in parentheses. */
export const sql = (text: string, ...bindings: readonly Binding[]): Sql => db.raw(text, bindings);

/** The pieces joined by `or`. False when there are none. */
export const anyOf = (pieces: readonly Sql[]): Sql => joined(pieces, ' or ', 'false');

/** The pieces joined by `and`. True when there are none. */
export const allOf = (pieces: readonly Sql[]): Sql => joined(pieces, ' and ', 'true');

function joined(pieces: readonly Sql[], separator: string, ifNone: string): Sql {
  const text = pieces.map(() => '(?)').join(separator);
  return pieces.length === 0 ? sql(ifNone) : sql(`(${text})`, ...pieces);
}

/** The condition that the column equals the value. No condition when the value is undefined. */
export const equals = (column: string, value: string | undefined): Sql[] =>
  value === undefined ? [] : [sql(`${column} = ?`, value)];

/** The condition that the column has one of the values. No condition when there are none. */
export const isOneOf = (column: string, type: 'text' | 'uuid', values: readonly string[]): Sql[] =>
  values.length === 0 ? [] : [sql(`${column} = any(?::${type}[])`, [...values])];

/** The conditions that the column is in the range. */
export const isWithin = (column: string, { from, before }: Range): Sql[] => [
  ...(from === undefined ? [] : [sql(`${column} >= ?`, from)]),
  ...(before === undefined ? [] : [sql(`${column} < ?`, before)]),
];

export interface Range {
  /** The first instant of the range (included). */
  readonly from?: Date | undefined;
  /** The end of the range (excluded). */
  readonly before?: Date | undefined;
}

export const descending = (...columns: readonly string[]): { column: string; order: 'desc' }[] =>
  columns.map((column) => ({ column, order: 'desc' }));

/** The statement in the form of node-postgres. */
export function compile(statement: Knex.QueryBuilder | Sql): QueryConfig {
  const { sql: text, bindings } = statement.toSQL().toNative();
  return { text, values: [...bindings] };
}
