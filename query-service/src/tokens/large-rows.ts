import { t, tokenColumns, type OpenRow, type TokenRow } from './row.ts';

/** The columns that may be long. */
const wide = [t.data, t.mask, t.metadata, t.search_indexes] as const;
type WideColumn = 'data' | 'mask' | 'metadata' | 'search_indexes';

/** A row whose long columns have more bytes together is large. Ordinary tokens have some hundred. */
const largeRowBytes = 4 * 1024;
/** Large rows are read in parts of at most this size; one row alone may be larger. */
export const partBytes = 2 * 1024 * 1024;

/** The row of a large token as it is found: without its long columns. */
interface LargeRow extends Omit<TokenRow, WideColumn> {
  /** The size of the long columns. */
  readonly large_bytes: number;
}

/** A row as statements give it that find many tokens: a hundred whole rows would be 100 MB. */
export type FoundRow = (TokenRow & { readonly large_bytes?: null }) | LargeRow;

export const isWhole = (row: FoundRow): row is TokenRow & { readonly large_bytes?: null } =>
  typeof row.large_bytes !== 'number';

/** The size of the long columns, in SQL. The size of a long value is known without reading the value. */
export const bytesOfRow = wide.map((column) => `coalesce(octet_length(${column}), 0)`).join(' + ');
const nameOf = (column: string): string => column.slice(column.indexOf('.') + 1);

/** The columns of `FoundRow`. @param bytes the size of the long columns, in SQL */
export const foundColumnsBy = (bytes: string): readonly string[] => [
  ...tokenColumns.map((column) =>
    wide.some((each) => each === column)
      ? `case when ${bytes} <= ${largeRowBytes} then ${column} end as ${nameOf(column)}`
      : column,
  ),
  `case when ${bytes} > ${largeRowBytes} then ${bytes} end as large_bytes`,
];
export const foundColumns = foundColumnsBy(bytesOfRow);

/** What is known of the size of a row. Small rows have none. */
export interface RowSize {
  readonly large_bytes?: number | null;
}

const bytesOf = (row: RowSize): number => row.large_bytes ?? largeRowBytes;

/** A hundred rows of the largest small size: a page of at most so many bytes is read as one of small rows is. */
export const smallPageBytes = 100 * largeRowBytes;
/** The same for a token that is read alone. Opening it takes 4 ms of the thread at most, and all 64 requests that run at a time have 4 MiB. */
export const smallTokenBytes = 64 * 1024;

/** Whether the rows of a page have, once they are whole, more bytes together than a page of small rows may have. */
export const isLargePage = (rows: readonly RowSize[], smallBytes: number): boolean =>
  rows.reduce((sum, row) => sum + bytesOf(row), 0) > smallBytes;

/** Divides rows into parts, in their order, by the size that they have when they are whole. */
export function* partsOf(rows: readonly FoundRow[]): Generator<readonly FoundRow[]> {
  let part: FoundRow[] = [];
  let size = 0;
  for (const row of rows) {
    const added = bytesOf(row);
    if (part.length > 0 && size + added > partBytes) {
      yield part;
      part = [];
      size = 0;
    }
    part.push(row);
    size += added;
  }
  if (part.length > 0) yield part;
}

/** The rows of a part, whole and in their order. Tokens that `read` does not find any more are left out. */
export async function wholeRowsOf(
  part: readonly FoundRow[],
  read: (ids: readonly string[]) => Promise<readonly TokenRow[]>,
): Promise<TokenRow[]> {
  const large = part.filter((row) => !isWhole(row)).map(({ id }) => id);
  const whole = new Map((large.length === 0 ? [] : await read(large)).map((row) => [row.id, row]));
  return part.flatMap((row) => (isWhole(row) ? row : (whole.get(row.id) ?? [])));
}

/** The row as it is kept once its data is open. */
export function keptOf(row: TokenRow): OpenRow {
  if (row.data.length <= largeRowBytes) return row;
  const { data, ...kept } = row;
  return { ...kept, data_length: data.length };
}
