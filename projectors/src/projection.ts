import {
  liveSchema,
  type DataOf,
  type EventMetadata,
  type JsonInput,
  type VaultEventType,
} from '@token-vault/contracts';

/**
 * Values by column. Timestamps are RFC 3339 text, 64-bit integers decimal text, `json` columns any JSON value, text
 * columns strings. An insert sets null in a column that the row leaves out. An update changes only the columns that
 * the row names.
 */
export type Row = Readonly<Record<string, JsonInput | undefined>>;

/**
 * A change of a read model, as data, so that the runner can make few statements of a whole batch. `key` names exactly
 * the columns of `addressedBy`.
 */
export type SqlOp =
  | { readonly kind: 'insert'; readonly table: string; readonly row: Row }
  | { readonly kind: 'update'; readonly table: string; readonly key: Row; readonly set: Row }
  | { readonly kind: 'delete'; readonly table: string; readonly key: Row }
  /**
   * Adds `by`, or one, to the column `count` of the row that has these values, and makes the row with the first. `key` names all other columns.
   * The counts of a batch are summed before they are written, so a busy row is written once a batch.
   */
  | { readonly kind: 'count'; readonly table: string; readonly key: Row; readonly by?: number }
  /** Makes the row that has these values, unless it is there. `key` names all columns, which are the primary key. */
  | { readonly kind: 'mark'; readonly table: string; readonly key: Row }
  /** Deletes rows by any columns. Rare, because it splits the batch. */
  | { readonly kind: 'sweep'; readonly table: string; readonly where: Row }
  /**
   * Copies rows between tables (`columns`: target to source) and adds the columns of `add`. Rare, because it splits
   * the batch.
   */
  | {
      readonly kind: 'copy';
      readonly from: string;
      readonly where: Row;
      /** Rows in which this column is null are not copied. */
      readonly unlessNull?: string;
      readonly into: string;
      readonly columns: Readonly<Record<string, string>>;
      readonly add: Row;
    };

export interface Index {
  /** The SQL after `on <table>`: columns in parentheses, and a condition where needed. */
  readonly on: string;
  readonly isUnique?: boolean;
  /**
   * True when no op of the projection looks rows up by this index. A successor gets the index after it is filled; a
   * successor for verification never gets it.
   */
  readonly isForReaders?: boolean;
}

/**
 * A table of a read model. Names have no schema: the same projection fills the live schema and that of its successor.
 */
export interface Table {
  readonly name: string;
  /** Column name to SQL type and constraints. */
  readonly columns: Readonly<Record<string, string>>;
  readonly primaryKey: readonly string[];
  /** More columns in the index of the primary key, for readers. */
  readonly primaryKeyIncludes?: readonly string[];
  /**
   * Columns that identify the row in updates and deletes, and that no update changes. The primary key by default.
   * `none`: rows are only inserted.
   */
  readonly addressedBy?: readonly string[] | 'none';
  readonly indexes?: readonly Index[];
  /**
   * Columns with sealed values. Postgres keeps no statistics of them, because `pg_statistic` would hold copies of
   * values of deleted rows.
   */
  readonly sealedColumns?: readonly string[];
}

/** An event in the form that a projection's handlers get. */
export interface Occurrence<Type extends VaultEventType = VaultEventType> {
  readonly id: string;
  readonly type: Type;
  readonly data: DataOf<Type>;
  readonly metadata: EventMetadata;
  /**
   * The position where the event took effect. For an enlisted event it is the position of the transaction's commit.
   */
  readonly position: string;
  /**
   * The number of changes that earlier events made at the same position. It is 0 unless the event was enlisted in a
   * transaction.
   */
  readonly ordinal: number;
}

export type Handlers = {
  readonly [Type in VaultEventType]?: (event: Occurrence<Type>) => readonly SqlOp[];
};

/**
 * The functions that turn events into rows. Handlers are pure: no clock, randomness, reads, network or decryption, so
 * that a rebuild gives the same rows. Raise `version` whenever tables or handlers change: the runner then rebuilds
 * the read model.
 */
export interface Projection<Name extends string = string> {
  /** Lower-case letters and underscores. The tables are in the schema `rm_<name>`. */
  readonly name: Name;
  readonly version: number;
  /**
   * False when the answer of a write does not wait for this projection: a reader waits for it itself, or only the
   * vault's own background work reads it.
   */
  readonly isAwaited?: false;
  readonly tables: readonly Table[];
  /**
   * Functions and triggers, made after the tables of that schema. Only a trigger names the schema, that of its function: Postgres finds no
   * function of `pg_temp` without it.
   */
  readonly ddl?: (schema: string) => readonly string[];
  readonly on: Handlers;
}

export function addressOf(table: Table): readonly string[] {
  if (table.addressedBy === 'none') return [];
  return table.addressedBy ?? table.primaryKey;
}

export const nextSchema = (name: string): string => `${liveSchema(name)}_next`;

/** The schema of the temporary tables of a session. No other session of the same role can read or write them. */
export const temporarySchema = 'pg_temp';
