import type { ReactNode } from 'react';
import type { Page } from '../api/client.ts';
import type { Query } from '../api/use-query.ts';
import { formatNumber } from './format.ts';
import { Button } from './parts.tsx';
import { Empty, Loaded } from './states.tsx';

export interface Column<Row> {
  readonly name: string;
  readonly isNumber?: boolean;
  readonly isNarrow?: boolean;
  readonly show: (row: Row) => ReactNode;
}

interface TableProps<Row> {
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row, index: number) => string;
  readonly empty?: ReactNode;
}

const classOf = (column: { isNumber?: boolean; isNarrow?: boolean }): string =>
  [column.isNumber && 'number', column.isNarrow && 'nowrap'].filter(Boolean).join(' ');

/** The roles are written out, because a narrow screen shows the rows as lists, by which browsers forget the table. */
export function Table<Row>({ label, columns, rows, keyOf, empty }: TableProps<Row>) {
  if (rows.length === 0) return <Empty>{empty ?? 'There is nothing here yet.'}</Empty>;
  return (
    <div className="table-scroll" tabIndex={0} role="group" aria-label={label}>
      <table className={columns.length > 3 ? 'table folding' : 'table'} role="table" aria-label={label}>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map((column) => (
              <th key={column.name} role="columnheader" scope="col" className={classOf(column)}>
                {column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map((row, index) => (
            <tr key={keyOf(row, index)} role="row">
              {columns.map((column) => (
                <td key={column.name} role="cell" className={classOf(column)} data-name={column.name}>
                  <span>{column.show(row)}</span>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface PagedTableProps<Row> extends Omit<TableProps<Row>, 'rows'> {
  readonly query: Query<Page<Row>>;
  readonly onPage: (page: number) => void;
}

export function PagedTable<Row>({ query, onPage, ...table }: PagedTableProps<Row>) {
  return (
    <Loaded query={query}>
      {({ data, pagination }) => (
        <div aria-busy={query.isLoading}>
          <Table {...table} rows={data} />
          <Pager label={table.label} pagination={pagination} shown={data.length} onPage={onPage} />
        </div>
      )}
    </Loaded>
  );
}

interface PagerProps {
  readonly label: string;
  readonly pagination: Page<unknown>['pagination'];
  readonly shown: number;
  readonly onPage: (page: number) => void;
}

function Pager({ label, pagination, shown, onPage }: PagerProps) {
  const { page_number: page, page_size: size, total_items: total, total_pages: pages } = pagination;
  const first = (page - 1) * size + 1;
  return (
    <nav className="pager" aria-label={`Pages of ${label}`}>
      <span role="status">
        {shown === 0
          ? `${formatNumber(total)} in all`
          : `${formatNumber(first)}–${formatNumber(first + shown - 1)} of ${formatNumber(total)}`}
      </span>
      <span className="row">
        <Button isSmall disabled={page <= 1} onClick={() => onPage(page - 1)}>
          Previous
        </Button>
        <span className="muted">
          Page {formatNumber(page)} of {formatNumber(Math.max(1, pages))}
        </span>
        <Button isSmall disabled={page >= pages} onClick={() => onPage(page + 1)}>
          Next
        </Button>
      </span>
    </nav>
  );
}
