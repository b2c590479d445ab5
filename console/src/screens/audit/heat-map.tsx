import { type CSSProperties, type KeyboardEvent } from 'react';
import type { LogInterval, LogSummary } from '@token-vault/contracts';
import { useNames } from '../../api/names.ts';
import { formatNumber, formatTime, plural, shortId } from '../../ui/format.ts';
import { Empty } from '../../ui/states.tsx';
import { lengthsMs, type Range, startsOf } from './range.ts';

const maxRows = 20;

interface Row {
  readonly actor: string;
  readonly total: number;
  readonly counts: ReadonlyMap<number, number>;
}

function rowsOf(data: LogSummary['data']): Row[] {
  const rows = Map.groupBy(data, ({ value }) => value ?? '');
  return [...rows]
    .map(([actor, counts]) => ({
      actor,
      total: counts.reduce((sum, { count }) => sum + count, 0),
      counts: new Map(counts.map(({ start, count }) => [Date.parse(start), count])),
    }))
    .sort((left, right) => right.total - left.total);
}

/** The arrow keys go from cell to cell. */
function moveFocus(event: KeyboardEvent<HTMLTableElement>): void {
  const steps: Readonly<Record<string, number>> = { ArrowRight: 1, ArrowLeft: -1 };
  const step = steps[event.key];
  if (step === undefined) return;
  const cells = [...event.currentTarget.querySelectorAll('button')];
  const next = cells[cells.findIndex((cell) => cell === document.activeElement) + step];
  if (next === undefined) return;
  event.preventDefault();
  next.focus();
}

interface HeatMapProps {
  readonly summary: LogSummary;
  readonly range: Range;
  readonly onSelect: (actor: string, range: Range) => void;
}

/** Reveals by application and time. Each cell leads to its entries. */
export function HeatMap({ summary, range, onSelect }: HeatMapProps) {
  const rows = rowsOf(summary.data);
  const shown = rows.slice(0, maxRows);
  const names = useNames(shown.map(({ actor }) => actor));
  if (rows.length === 0) return <Empty>No data was revealed in this time.</Empty>;
  const starts = startsOf(range, summary.interval);
  const most = Math.max(...summary.data.map(({ count }) => count));
  return (
    <>
      <div className="table-scroll" tabIndex={0} role="group" aria-label="Reveals by application and time">
        <table className="heat" style={{ minWidth: 128 + starts.length * 5 }} onKeyDown={moveFocus}>
          <caption className="hidden-visually">
            Reveals by application and {summary.interval}. Cells without a button have no reveals.
          </caption>
          <Head starts={starts} interval={summary.interval} />
          <tbody>
            {shown.map((row) => (
              <HeatRow
                key={row.actor}
                row={row}
                name={names.get(row.actor) ?? (shortId(row.actor) || 'unknown')}
                {...{ starts, most, interval: summary.interval, onSelect }}
              />
            ))}
          </tbody>
        </table>
      </div>
      <p className="muted small">
        {plural(summary.total_items, 'reveal')} by {plural(rows.length, 'caller')}
        {rows.length > maxRows && `; the ${maxRows} with the most are shown`}. Darkest: {formatNumber(most)}{' '}
        in one {summary.interval}.
      </p>
    </>
  );
}

function Head({ starts, interval }: { readonly starts: readonly Date[]; readonly interval: LogInterval }) {
  const every = Math.max(1, Math.ceil(starts.length / 8));
  // Over several days the labels are the days.
  const isLabelled = (start: Date, index: number) =>
    interval === 'hour' && starts.length > 48 ? start.getUTCHours() === 0 : index % every === 0;
  return (
    <thead>
      <tr>
        <th className="name" scope="col">
          Application
        </th>
        {starts.map((start, index) => (
          <th key={start.getTime()} scope="col">
            <span className="hidden-visually">{formatTime(start, 'minute')}</span>
            {isLabelled(start, index) && <span aria-hidden="true">{labelOf(start, interval)}</span>}
          </th>
        ))}
      </tr>
    </thead>
  );
}

function labelOf(start: Date, interval: LogInterval): string {
  const text = formatTime(start, 'minute');
  return interval === 'day' || start.getUTCHours() === 0 ? text.slice(5, 10) : text.slice(11);
}

interface HeatRowProps {
  readonly row: Row;
  readonly name: string;
  readonly starts: readonly Date[];
  readonly most: number;
  readonly interval: LogInterval;
  readonly onSelect: HeatMapProps['onSelect'];
}

function HeatRow({ row, name, starts, most, interval, onSelect }: HeatRowProps) {
  return (
    <tr>
      <th scope="row" title={name}>
        {name}
      </th>
      {starts.map((start) => {
        const count = row.counts.get(start.getTime());
        if (count === undefined) return <td key={start.getTime()} />;
        const label = `${name}, ${formatTime(start, 'minute')} UTC: ${plural(count, 'reveal')}`;
        const to = new Date(start.getTime() + lengthsMs[interval]);
        return (
          <td key={start.getTime()}>
            <button
              type="button"
              title={label}
              aria-label={label}
              data-count={count}
              style={{ '--heat': count / most } as CSSProperties}
              onClick={() => onSelect(row.actor, { from: start, to })}
            />
          </td>
        );
      })}
    </tr>
  );
}
