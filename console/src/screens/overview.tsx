import { useCallback, useState } from 'react';
import type { LogSummary } from '@token-vault/contracts';
import { withQuery } from '../api/client.ts';
import type { ConsoleOverview } from '@token-vault/contracts';
import { useQuery } from '../api/use-query.ts';
import { hrefOf } from '../app/router.ts';
import { useMay } from '../app/session.tsx';
import { Chart, Numbers, timeLabel } from '../ui/chart.tsx';
import { formatAgo, formatNumber, formatRate, formatTime, plural } from '../ui/format.ts';
import { Badge, Card, Facts, PageHead } from '../ui/parts.tsx';
import { Empty, Loaded, Missing } from '../ui/states.tsx';
import { Table } from '../ui/table.tsx';

const refreshMs = 5000;
const hourMs = 3_600_000;

export function Overview() {
  const mayRead = useMay('log:read');
  const overview = useQuery<ConsoleOverview>(mayRead ? '/console/overview' : undefined, {
    everyMs: refreshMs,
  });
  return (
    <div className="stack">
      <PageHead title="Overview">
        {overview.data && <span className="muted small">As of {formatTime(overview.data.at)} UTC</span>}
      </PageHead>
      {mayRead ? (
        <Loaded query={overview}>
          {(data) => (
            <>
              <Figures overview={data} />
              <Minutes />
              <div className="two">
                <Kinds rows={data.last_hour} />
                <div className="stack">
                  <Signed audit={data.audit} />
                  <ReadModels projections={data.projections} />
                </div>
              </div>
            </>
          )}
        </Loaded>
      ) : (
        <Missing permission="log:read" />
      )}
    </div>
  );
}

function Figures({ overview }: { readonly overview: ConsoleOverview }) {
  const { rates, projections } = overview;
  const behind = Math.max(0, ...projections.map((each) => each.behind));
  const figures = [
    ['Requests a second', formatRate(rates.requests)],
    ['Reveals a second', formatRate(rates.reveals)],
    ['Appends a second', formatRate(rates.appends)],
    ['Events behind, at most', formatNumber(behind)],
    ['Runs waiting', formatNumber(overview.runs_waiting)],
    ['Entries not yet signed', formatNumber(overview.audit.unsigned_entries)],
  ] as const;
  return (
    <dl className="figures">
      {figures.map(([name, value]) => (
        <div key={name} className="figure">
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

const minuteOf = (time: number): Date => new Date(Math.ceil(time / 60_000) * 60_000);

/** The last hour, minute by minute. */
function Minutes() {
  const [end] = useState(() => minuteOf(Date.now()));
  const start = new Date(end.getTime() - hourMs);
  const summary = useQuery<LogSummary>(
    withQuery('/logs/summary', {
      interval: 'minute',
      start_date: start.toISOString(),
      end_date: end.toISOString(),
    }),
  );
  return (
    <Card title="Log entries of the last hour, by minute">
      <Loaded query={summary}>
        {({ data, total_items: total }) =>
          data.length === 0 ? (
            <Empty>No entries in the last hour.</Empty>
          ) : (
            <MinuteChart {...{ data, total, end }} />
          )
        }
      </Loaded>
    </Card>
  );
}

interface MinuteChartProps {
  readonly data: LogSummary['data'];
  readonly total: number;
  readonly end: Date;
}

function MinuteChart({ data, total, end }: MinuteChartProps) {
  const draw = useCallback<Parameters<typeof Chart>[0]['draw']>(
    (plot) => ({
      height: 150,
      marginLeft: 48,
      marginRight: 24,
      marginTop: 12,
      x: { type: 'utc', domain: [new Date(end.getTime() - hourMs), end], label: null, tickFormat: timeLabel },
      y: { grid: true, label: null, nice: true, ticks: 4 },
      marks: [
        plot.rectY(data, {
          x1: ({ start }: { start: string }) => new Date(start),
          x2: ({ start }: { start: string }) => new Date(Date.parse(start) + 60_000),
          y: 'count',
          inset: 0.5,
          fill: 'var(--chart-1)',
          title: ({ start, count }: { start: string; count: number }) =>
            `${formatTime(start, 'minute')} UTC: ${formatNumber(count)}`,
        }),
        plot.ruleY([0], { stroke: 'var(--line)' }),
      ],
    }),
    [data, end],
  );
  return (
    <>
      <Chart label={`${plural(total, 'log entry', 'log entries')} in the last hour, by minute`} draw={draw} />
      <Numbers
        label="Numbers by minute"
        columns={['Minute (UTC)', 'Entries']}
        rows={data.map(({ start, count }) => [formatTime(start, 'minute'), count])}
      />
    </>
  );
}

function Kinds({ rows }: { readonly rows: ConsoleOverview['last_hour'] }) {
  const sorted = rows.toSorted((left, right) => right.count - left.count);
  const most = sorted[0]?.count ?? 1;
  return (
    <Card title="Last hour, by kind of event" isFlush>
      <Table
        label="Last hour, by kind of event"
        rows={sorted}
        keyOf={({ entity_type: entity, operation }) => `${entity} ${operation}`}
        empty="Nothing was logged in the last hour."
        columns={[
          {
            name: 'Event',
            show: ({ entity_type: entity, operation }) => (
              <a href={hrefOf(['audit'], { range: '1h', entity_type: entity, operation })}>
                {entity} {operation}
              </a>
            ),
          },
          { name: 'Entries', isNumber: true, show: ({ count }) => formatNumber(count) },
          {
            name: 'Share',
            show: ({ count }) => (
              <progress className="progress" value={count} max={most} aria-label={`${count} of ${most}`} />
            ),
          },
        ]}
      />
    </Card>
  );
}

function Signed({ audit }: { readonly audit: ConsoleOverview['audit'] }) {
  const { checkpoint, unsigned_entries: unsigned } = audit;
  return (
    <Card title="Signed log">
      {checkpoint === undefined ? (
        <p className="muted">
          No checkpoint has been signed yet. {plural(unsigned, 'entry', 'entries')} will be in the first one.
        </p>
      ) : (
        <Facts
          facts={[
            [
              'Last checkpoint',
              `${formatTime(checkpoint.signed_at)} UTC (${formatAgo(checkpoint.signed_at)})`,
            ],
            ['Signed through', `position ${checkpoint.through}, ${plural(checkpoint.events, 'event')}`],
            ['Not yet signed', plural(unsigned, 'entry', 'entries')],
          ]}
        />
      )}
    </Card>
  );
}

export function StatusBadge({ status }: { readonly status: string }) {
  const tone = status === 'live' ? 'ok' : status === 'failed' ? 'bad' : 'warn';
  return <Badge tone={tone}>{status}</Badge>;
}

function ReadModels({ projections }: { readonly projections: ConsoleOverview['projections'] }) {
  return (
    <Card title="Read models" isFlush>
      <Table
        label="Read models"
        rows={projections}
        keyOf={({ name }) => name}
        columns={[
          { name: 'Name', show: ({ name }) => name },
          { name: 'State', show: ({ status }) => <StatusBadge status={status} /> },
          { name: 'Behind', isNumber: true, show: ({ behind }) => plural(behind, 'event') },
        ]}
      />
    </Card>
  );
}
