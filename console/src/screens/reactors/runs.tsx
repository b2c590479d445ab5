import { useCallback, useState } from 'react';
import type { Invocation } from '@token-vault/contracts';
import { call, type Page, withQuery } from '../../api/client.ts';
import { useNames } from '../../api/names.ts';
import { useAction, useQuery } from '../../api/use-query.ts';
import { useMay } from '../../app/session.tsx';
import { Chart, Numbers, timeLabel } from '../../ui/chart.tsx';
import { formatDuration, formatTime, shortId } from '../../ui/format.ts';
import { Badge, Button, Card, SelectField, type Tone } from '../../ui/parts.tsx';
import { Failure } from '../../ui/states.tsx';
import { type Column, PagedTable } from '../../ui/table.tsx';

const states = ['waiting', 'running', 'succeeded', 'failed'] as const;
const tones: Readonly<Record<string, Tone>> = {
  succeeded: 'ok',
  failed: 'bad',
  running: 'info',
  waiting: 'warn',
};

interface RunsProps {
  /** Undefined: the runs of all reactors. */
  readonly reactorId?: string;
}

/** Runs with their durations. The results of asynchronous ones can be delivered again. */
export function Runs({ reactorId }: RunsProps) {
  const [state, setState] = useState('');
  const [page, setPage] = useState(1);
  const mayRedeliver = useMay('reactor:update');
  const runs = useQuery<Page<Invocation>>(
    withQuery('/invocations', { reactor_id: reactorId, state, page, size: 25 }),
    { everyMs: 5000 },
  );
  const redeliver = useAction(async (id: string) => {
    await call('POST', `/invocations/${id}/redeliver`);
    runs.reload();
  });
  const names = useNames(runs.data?.data.map((run) => run.invoked_by) ?? []);
  return (
    <Card
      title="Runs"
      isFlush
      actions={
        <SelectField
          label="State"
          value={state}
          choices={[{ value: '', label: 'Any' }, ...states.map((each) => ({ value: each, label: each }))]}
          onChange={(value) => {
            setState(value);
            setPage(1);
          }}
        />
      }
    >
      {redeliver.error && (
        <div className="body">
          <Failure error={redeliver.error} />
        </div>
      )}
      {runs.data && <Durations runs={runs.data.data} />}
      <PagedTable
        label="Runs"
        query={runs}
        onPage={setPage}
        keyOf={({ id }) => id}
        columns={columnsOf(names, mayRedeliver ? (id) => void redeliver.run(id) : undefined)}
        empty="No run matches."
      />
    </Card>
  );
}

const columnsOf = (
  names: ReadonlyMap<string, string>,
  onRedeliver: ((id: string) => void) | undefined,
): Column<Invocation>[] => [
  { name: 'Asked (UTC)', isNarrow: true, show: ({ invoked_at: at }) => formatTime(at) },
  { name: 'By', show: ({ invoked_by: id }) => <span title={id}>{names.get(id) ?? shortId(id)}</span> },
  {
    name: 'State',
    show: ({ state, error }) => (
      <>
        <Badge tone={tones[state]}>{state}</Badge>
        {error && (
          <span className="muted small">
            {' '}
            {error.status} {error.class}
          </span>
        )}
      </>
    ),
  },
  { name: 'Mode', show: ({ mode }) => mode },
  { name: 'Duration', isNumber: true, show: ({ duration_ms: ms }) => formatDuration(ms) },
  {
    name: 'Delivery',
    show: ({ id, delivery }) =>
      delivery && (
        <span className="row">
          <span>
            {delivery.state}, {delivery.attempts.length} attempts
            {delivery.attempts.at(-1)?.reason && `, ${delivery.attempts.at(-1)?.reason}`}
          </span>
          {onRedeliver && delivery.state !== 'delivered' && (
            <Button isSmall aria-label={`Deliver run ${shortId(id)} again`} onClick={() => onRedeliver(id)}>
              Deliver again
            </Button>
          )}
        </span>
      ),
  },
];

/** The durations of the runs of the page, as dots over time. */
function Durations({ runs }: { readonly runs: readonly Invocation[] }) {
  const timed = runs.filter((run) => run.duration_ms !== undefined);
  const text = JSON.stringify(timed.map(({ invoked_at: at, duration_ms: ms, state }) => ({ at, ms, state })));
  const draw = useCallback<Parameters<typeof Chart>[0]['draw']>(
    (plot) => ({
      height: 140,
      marginLeft: 48,
      marginTop: 16,
      x: { type: 'utc', label: null, tickFormat: timeLabel },
      y: { grid: true, label: 'ms', zero: true, ticks: 4 },
      marks: [
        plot.dot(JSON.parse(text) as { at: string; ms: number; state: string }[], {
          x: ({ at }: { at: string }) => new Date(at),
          y: 'ms',
          r: 3.5,
          fill: ({ state }: { state: string }) => (state === 'failed' ? 'var(--danger)' : 'var(--chart-1)'),
        }),
      ],
    }),
    [text],
  );
  if (timed.length < 2) return null;
  return (
    <div className="body">
      <Chart label={`Durations of ${timed.length} runs in milliseconds`} draw={draw} />
      <Numbers
        label="Durations of these runs"
        columns={['Asked (UTC)', 'Milliseconds']}
        rows={timed.map(({ invoked_at: at, duration_ms: ms }) => [formatTime(at), ms ?? 0])}
      />
    </div>
  );
}
