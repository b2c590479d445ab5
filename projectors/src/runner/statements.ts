import { addressOf, type Row, type Table } from '../projection.ts';
import type { Step, TableChange } from './fold.ts';

/** A prepared statement. Each distinct text has its own name, the same in every session. */
export interface Statement {
  readonly name: string;
  readonly text: string;
  readonly values: unknown[];
}

const names = new Map<string, string>();

export function statement(text: string, values: unknown[]): Statement {
  let name = names.get(text);
  if (name === undefined) {
    name = `projector_${names.size}`;
    names.set(text, name);
  }
  return { name, text, values };
}

/** The statements of a batch, in order. A change of many rows is sent as one JSON parameter. */
export function compile(steps: readonly Step[]): Statement[] {
  return steps.flatMap((step) => {
    if (!('kind' in step)) return compileChange(step);
    if (step.kind === 'sweep') return [compileSweep(step)];
    return [compileCopy(step)];
  });
}

function compileChange({ table, deletes, updates, inserts, counts, marks }: TableChange): Statement[] {
  const statements: Statement[] = [];
  for (const part of inParts(deletes)) statements.push(compileDelete(table, part));
  for (const group of bySetColumns(updates).values())
    for (const part of inParts(group, ({ set }) => set)) statements.push(compileUpdate(table, part));
  for (const part of inParts(inserts)) statements.push(compileInsert(table, part));
  for (const part of inParts(counts)) statements.push(compileCount(table, part));
  for (const part of inParts(marks)) statements.push(compileInsert(table, part, 'on conflict do nothing'));
  return statements;
}

/**
 * The characters of the rows of one statement. V8 has no text of more than 2^29 characters, and JSON may write each of these with six: the
 * tokens of one transaction can be more.
 */
const mostCharacters = 16_777_216;

/** Parts of rows for one statement each. No parts when there are no rows. */
function inParts<Item>(
  items: readonly Item[],
  rowOf: (item: Item) => Row = (item) => item as Row,
): readonly (readonly Item[])[] {
  const parts: Item[][] = [];
  let characters = Infinity;
  for (const item of items) {
    const more = charactersOf(rowOf(item));
    if (characters + more > mostCharacters) {
      parts.push([]);
      characters = 0;
    }
    parts.at(-1)?.push(item);
    characters += more;
  }
  return parts;
}

/** The characters of the texts of a row, or of the data of an event. */
export function charactersOf(row: object): number {
  let characters = 0;
  for (const value of Object.values(row) as readonly unknown[]) {
    if (typeof value === 'string') characters += value.length;
    else if (typeof value === 'object' && value !== null) characters += JSON.stringify(value).length;
  }
  return characters;
}

function compileDelete(table: Table, keys: readonly Row[]): Statement {
  return statement(`delete from ${table.name} t using ${recordset(table)} r where ${isSameAddress(table)}`, [
    rowsParameter(table, keys),
  ]);
}

type Update = TableChange['updates'][number];

function compileUpdate(table: Table, updates: readonly Update[]): Statement {
  const columns = Object.keys(updates[0]?.set ?? {}).sort();
  const assignments = columns.map((column) => `${known(table, column)} = r.${column}`);
  return statement(
    `update ${table.name} t set ${assignments.join(', ')} from ${recordset(table)} r where ${isSameAddress(table)}`,
    [
      rowsParameter(
        table,
        updates.map(({ key, set }) => ({ ...key, ...set })),
      ),
    ],
  );
}

function compileInsert(table: Table, rows: readonly Row[], unless = ''): Statement {
  const columns = Object.keys(table.columns).join(', ');
  return statement(
    `insert into ${table.name} (${columns}) select ${columns} from ${recordset(table)} r ${unless}`,
    [rowsParameter(table, rows)],
  );
}

/**
 * Keys are grouped once more by Postgres: two texts that it cannot store may become the same one (`rowsParameter`), and one statement
 * cannot change a row twice.
 */
function compileCount(table: Table, counts: readonly Row[]): Statement {
  const key = table.primaryKey.join(', ');
  return statement(
    `insert into ${table.name} as c (${key}, count) select ${key}, sum(r.count) from ${recordset(table)} r group by ${key}
     on conflict (${key}) do update set count = c.count + excluded.count`,
    [rowsParameter(table, counts)],
  );
}

function compileSweep({ table, where }: Extract<Step, { kind: 'sweep' }>): Statement {
  const conditions = Object.keys(where).map((column, index) => `${column} = $${index + 1}`);
  return statement(`delete from ${table} where ${conditions.join(' and ')}`, Object.values(where));
}

function compileCopy(step: Extract<Step, { kind: 'copy' }>): Statement {
  const { from, where, unlessNull, into, columns, add } = step;
  const added = Object.keys(add).length;
  const targets = [...Object.keys(columns), ...Object.keys(add)];
  const sources = [...Object.values(columns), ...Object.keys(add).map((_, index) => `$${index + 1}`)];
  const conditions = Object.keys(where).map((column, index) => `${column} = $${added + index + 1}`);
  if (unlessNull !== undefined) conditions.push(`${unlessNull} is not null`);
  return statement(
    `insert into ${into} (${targets.join(', ')}) select ${sources.join(', ')} from ${from} where ${conditions.join(' and ')}`,
    [...Object.values(add), ...Object.values(where)],
  );
}

function bySetColumns(updates: readonly Update[]): Map<string, Update[]> {
  const groups = new Map<string, Update[]>();
  for (const update of updates) {
    const columns = Object.keys(update.set).sort().join();
    const group = groups.get(columns);
    if (group) group.push(update);
    else groups.set(columns, [update]);
  }
  return groups;
}

const recordset = (table: Table): string => `json_populate_recordset(null::${table.name}, $1::json)`;

const isSameAddress = (table: Table): string =>
  addressOf(table)
    .map((column) => `t.${column} = r.${column}`)
    .join(' and ');

function known(table: Table, column: string): string {
  if (!(column in table.columns)) throw new TypeError(`no column ${column} in ${table.name}`);
  return column;
}

const unstorable = /\\(?:u0000|ud[89a-f][0-9a-f]{2}|.)/g;

/**
 * Rows as JSON that Postgres accepts: no content of the log may stop a projection. NUL and halves of surrogate pairs, which its text type
 * cannot hold, become U+FFFD. (JSON.stringify does not escape whole pairs.)
 */
function rowsParameter(table: Table, rows: readonly Row[]): string {
  const json = JSON.stringify(withStorableTimes(table, rows));
  if (!json.includes('\\u0000') && !json.includes('\\ud')) return json;
  return json.replace(unstorable, (escape) => (/^\\u(0000|d)/.test(escape) ? '\\ufffd' : escape));
}

/** RFC 3339, as far as Postgres reads it: it refuses offsets of 16 hours and more, and times of more than some 128 characters. */
const storable = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,100})?)?(?:Z|[+-](?:0\d|1[0-5]):\d\d)$/;

const timesOf = ({ columns }: Table): string[] =>
  Object.keys(columns).filter((column) => columns[column]?.startsWith('timestamptz'));

function withStorableTimes(table: Table, rows: readonly Row[]): readonly Row[] {
  const times = timesOf(table);
  if (times.length === 0) return rows;
  return rows.map((row) => {
    const odd = times.filter((column) => typeof row[column] === 'string' && !storable.test(row[column]));
    if (odd.length === 0) return row;
    return { ...row, ...Object.fromEntries(odd.map((column) => [column, inUtc(row[column] as string)])) };
  });
}

/** JavaScript writes years after 9999 with a sign and six digits. */
function inUtc(time: string): string {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? time : date.toISOString().replace(/^\+0*/, '');
}
