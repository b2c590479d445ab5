import { type PointerEvent, useCallback, useState } from 'react';
import type { LogSummary } from '@token-vault/contracts';
import { Chart, Numbers, timeLabel } from '../../ui/chart.tsx';
import { formatNumber, formatTime, plural } from '../../ui/format.ts';
import { lengthsMs, type Range } from './range.ts';

const margin = { left: 48, right: 24 };

interface TimelineProps {
  readonly summary: LogSummary;
  readonly range: Range;
  readonly onSelect: (range: Range) => void;
}

type Count = LogSummary['data'][number];

/** The entries of the range over time. A part of it can be chosen with the pointer; the fields of the range do the same by keyboard. */
export function Timeline({ summary, range, onSelect }: TimelineProps) {
  const { data, interval, total_items: total } = summary;
  const length = lengthsMs[interval];
  const [from, to] = [range.from.getTime(), range.to.getTime()];
  const draw = useCallback<Parameters<typeof Chart>[0]['draw']>(
    (plot) => ({
      height: 170,
      marginLeft: margin.left,
      marginRight: margin.right,
      marginTop: 12,
      x: { type: 'utc', domain: [new Date(from), new Date(to)], label: null, tickFormat: timeLabel },
      y: { grid: true, label: null, nice: true, ticks: 4 },
      marks: [
        plot.rectY(data, {
          x1: ({ start }: Count) => new Date(Math.max(from, Date.parse(start))),
          x2: ({ start }: Count) => new Date(Math.min(to, Date.parse(start) + length)),
          y: 'count',
          inset: 0.5,
          fill: 'var(--chart-1)',
        }),
        plot.ruleY([0], { stroke: 'var(--line)' }),
      ],
    }),
    [data, from, to, length],
  );
  const select = (start: number, end: number) =>
    onSelect({
      from: new Date(Math.floor((from + start * (to - from)) / length) * length),
      to: new Date(Math.ceil((from + end * (to - from)) / length) * length),
    });
  return (
    <>
      <Chart label={`${plural(total, 'log entry', 'log entries')}, by ${interval}`} draw={draw}>
        <Brush onSelect={select} />
      </Chart>
      <Numbers
        label={`Numbers by ${interval}`}
        columns={['Start (UTC)', 'Entries']}
        rows={data.map(({ start, count }) => [formatTime(start, 'minute'), formatNumber(count)])}
      />
    </>
  );
}

const shareOf = (event: PointerEvent<HTMLElement>): number => {
  const { left, width } = event.currentTarget.getBoundingClientRect();
  return Math.min(1, Math.max(0, (event.clientX - left) / width));
};

/** A share of the width below this is a click that slipped. */
const leastShare = 0.005;

function Brush({ onSelect }: { readonly onSelect: (start: number, end: number) => void }) {
  const [ends, setEnds] = useState<readonly [number, number]>();
  const [start, end] = ends?.toSorted((left, right) => left - right) ?? [];
  const finish = () => {
    setEnds(undefined);
    if (start !== undefined && end !== undefined && end - start > leastShare) onSelect(start, end);
  };
  return (
    <div
      className="brush"
      style={margin}
      title="Drag to choose a part of the time"
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        setEnds([shareOf(event), shareOf(event)]);
      }}
      onPointerMove={(event) => ends && setEnds([ends[0], shareOf(event)])}
      onPointerUp={finish}
      onPointerCancel={() => setEnds(undefined)}
    >
      {start !== undefined && end !== undefined && (
        <div className="brush-mark" style={{ left: `${start * 100}%`, width: `${(end - start) * 100}%` }} />
      )}
    </div>
  );
}
