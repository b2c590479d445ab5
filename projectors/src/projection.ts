import type { DataOf, EventMetadata, Json, VaultEventType } from '@token-vault/contracts';

/**
 * Values by column. Timestamps are RFC 3339 text, 64-bit integers decimal text, `json` columns any JSON value, text
 * columns strings. An inserted row has null where a column is left out; an update sets only what it names.
 */
export type Row = Readonly<Record<string, Json | undefined>>;

/**
 * A change of a read model, as data, so that the runner can make few statements of a whole batch. `key` names exactly
 * the columns by which the table is addressed.
 */
export type SqlOp =
  | { readonly kind: 'insert'; readonly table: string; readonly row: Row }
  | { readonly kind: 'update'; readonly table: string; readonly key: Row; readonly set: Row }
  | { readonly kind: 'delete'; readonly table: string; readonly key: Row }
  /** Deletes by any columns. Rare: it splits the batch. */
  | { readonly kind: 'sweep'; readonly table: string; readonly where: Row }
  /** Copies rows between tables (`columns`: target to source) and completes them with `add`. Rare: it splits the batch. */
  | {
      readonly kind: 'copy';
      readonly from: string;
      readonly where: Row;
      readonly into: string;
      readonly columns: Readonly<Record<string, string>>;
      readonly add: Row;
    };

export interface Index {
  /** What follows `on <table>`: columns in parentheses, maybe a condition. */
  readonly on: string;
  readonly isUnique?: boolean;
  /** No op of the projection looks a row up by it: a successor gets it when it is full, and one for verifying never. */
  readonly isForReaders?: boolean;
}

/** A table of a read model. Names are without a schema: the same projection fills the live one and its successor. */
export interface Table {
  readonly name: string;
  /** Name to SQL type and constraints. */
  readonly columns: Readonly<Record<string, string>>;
  readonly primaryKey: readonly string[];
  /** Columns that updates and deletes give, and that no update changes; the primary key by default. `none`: rows stay. */
  readonly addressedBy?: readonly string[] | 'none';
  readonly indexes?: readonly Index[];
  /** Columns with sealed values. Postgres keeps no statistics of them, because `pg_statistic` would hold copies of deleted rows. */
  readonly sealedColumns?: readonly string[];
}

/** An event as a projection sees it. */
export interface Occurrence<Type extends VaultEventType = VaultEventType> {
  readonly id: string;
  readonly type: Type;
  readonly data: DataOf<Type>;
  readonly metadata: EventMetadata;
  /** Where it took effect: of an enlisted event, the place of its transaction's commit. */
  readonly position: string;
  /** How many changes events before it made at the same position: 0 unless it was enlisted in a transaction. */
  readonly ordinal: number;
}

export type Handlers = {
  readonly [Type in VaultEventType]?: (event: Occurrence<Type>) => readonly SqlOp[];
};

/**
 * How events become rows. Handlers are pure: no clock, randomness, reads, network or decryption, so that a rebuild
 * gives the same rows. Raise `version` whenever tables or handlers change: the runner then rebuilds.
 */
export interface Projection {
  /** Lower-case letters and underscores; its tables live in the schema `rm_<name>`. */
  readonly name: string;
  readonly version: number;
  /** Who reads it waits for it, or is the vault itself and has time: a write is not answered later for its sake. */
  readonly isAwaited?: false;
  readonly tables: readonly Table[];
  /** Views, functions and triggers, after the tables; without schema names. */
  readonly ddl?: readonly string[];
  readonly on: Handlers;
}

export function addressOf(table: Table): readonly string[] {
  if (table.addressedBy === 'none') return [];
  return table.addressedBy ?? table.primaryKey;
}

export const liveSchema = (name: string): string => `rm_${name}`;
export const nextSchema = (name: string): string => `rm_${name}_next`;
