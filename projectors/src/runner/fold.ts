import type { JsonInput } from '@token-vault/contracts';
import { addressOf, type Projection, type Row, type SqlOp, type Table } from '../projection.ts';

/** The net change of one table by a stretch of ops. Deletes come first, then updates, inserts, counts and marks. */
export interface TableChange {
  readonly table: Table;
  readonly deletes: Row[];
  readonly updates: { readonly key: Row; readonly set: Row }[];
  readonly inserts: Row[];
  /** Rows with the number to add to their column `count`. */
  readonly counts: Row[];
  /** Rows to make unless they are there. */
  readonly marks: Row[];
}

export type Step = TableChange | Extract<SqlOp, { kind: 'sweep' | 'copy' }>;

/** The changes of the rows of one address since the stretch began. */
interface Group {
  readonly key: Row;
  /** The rows from before the stretch are deleted. */
  isCleared: boolean;
  set: Record<string, JsonInput | undefined> | undefined;
  rows: Record<string, JsonInput | undefined>[];
}

class TableFold {
  readonly #table: Table;
  readonly #address: readonly string[];
  readonly #isUnique: boolean;
  readonly #groups = new Map<string, Group>();
  readonly #appended: Row[] = [];
  readonly #counts = new Map<string, { readonly key: Row; count: number }>();
  readonly #marks = new Map<string, Row>();

  constructor(table: Table) {
    this.#table = table;
    this.#address = addressOf(table);
    this.#isUnique = this.#address === table.primaryKey;
  }

  insert(row: Row): void {
    if (this.#address.length === 0) this.#appended.push(row);
    else this.#group(row).rows.push({ ...row });
  }

  update(key: Row, set: Row): void {
    const group = this.#group(key);
    for (const row of group.rows) Object.assign(row, set);
    const isStored = !group.isCleared && !(this.#isUnique && group.rows.length > 0);
    if (isStored) group.set = { ...group.set, ...set };
  }

  delete(key: Row): void {
    const group = this.#group(key);
    group.isCleared = true;
    group.set = undefined;
    group.rows = [];
  }

  count(key: Row, by = 1): void {
    const id = addressId(this.#table.primaryKey, key);
    const counted = this.#counts.get(id);
    if (counted) counted.count += by;
    else this.#counts.set(id, { key, count: by });
  }

  mark(key: Row): void {
    this.#marks.set(addressId(this.#table.primaryKey, key), key);
  }

  change(): TableChange {
    const counts = [...this.#counts.values()].map(({ key, count }) => ({ ...key, count: String(count) }));
    const change: TableChange = {
      table: this.#table,
      deletes: [],
      updates: [],
      inserts: this.#appended,
      counts,
      marks: [...this.#marks.values()],
    };
    for (const { key, isCleared, set, rows } of this.#groups.values()) {
      if (isCleared) change.deletes.push(key);
      if (set) change.updates.push({ key, set });
      for (const row of rows) change.inserts.push(row);
    }
    return change;
  }

  #group(source: Row): Group {
    if (this.#address.length === 0) throw new TypeError(`rows of ${this.#table.name} stay as they are`);
    const id = addressId(this.#address, source);
    let group = this.#groups.get(id);
    if (!group) {
      const key = Object.fromEntries(this.#address.map((column) => [column, source[column]]));
      group = { key, isCleared: false, set: undefined, rows: [] };
      this.#groups.set(id, group);
    }
    return group;
  }
}

function addressId(address: readonly string[], source: Row): string {
  let id = '';
  for (const column of address) {
    const value = source[column];
    if (typeof value !== 'string') throw new TypeError(`${column} addresses a row, so it must be text`);
    id += `${value.length}:${value}`;
  }
  return id;
}

/**
 * Turns ops into their net effect. A row that is created and deleted within a batch costs nothing, and each table
 * needs a handful of statements for any number of events. Sweeps and copies cut the batch into stretches.
 */
export class BatchFold {
  readonly #tables: ReadonlyMap<string, Table>;
  readonly #steps: Step[] = [];
  #folds = new Map<string, TableFold>();

  constructor(projection: Projection, internalTables: readonly Table[] = []) {
    this.#tables = new Map([...projection.tables, ...internalTables].map((table) => [table.name, table]));
  }

  add(op: SqlOp): void {
    switch (op.kind) {
      case 'insert':
        this.#fold(op.table).insert(op.row);
        break;
      case 'update':
        this.#fold(op.table).update(op.key, op.set);
        break;
      case 'delete':
        this.#fold(op.table).delete(op.key);
        break;
      case 'count':
        this.#fold(op.table).count(op.key, op.by);
        break;
      case 'mark':
        this.#fold(op.table).mark(op.key);
        break;
      case 'sweep':
      case 'copy':
        this.#cut();
        this.#steps.push(op);
        break;
    }
  }

  /** The steps since the last call. */
  steps(): readonly Step[] {
    this.#cut();
    return this.#steps.splice(0);
  }

  #cut(): void {
    for (const fold of this.#folds.values()) this.#steps.push(fold.change());
    this.#folds = new Map();
  }

  #fold(name: string): TableFold {
    let fold = this.#folds.get(name);
    if (!fold) {
      const table = this.#tables.get(name);
      if (!table) throw new TypeError(`no table ${name} in this projection`);
      fold = new TableFold(table);
      this.#folds.set(name, fold);
    }
    return fold;
  }
}
