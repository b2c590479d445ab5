import { useState } from 'react';
import type { LogEntry, LogSummary } from '@token-vault/contracts';
import { type Page, type Parameters, withQuery } from '../api/client.ts';
import { useQuery } from '../api/use-query.ts';
import { useFilters, usePageNumber } from '../app/router.ts';
import { useMay } from '../app/session.tsx';
import { formatTime } from '../ui/format.ts';
import { Button, Card, PageHead } from '../ui/parts.tsx';
import { Loaded, Missing } from '../ui/states.tsx';
import { Entries } from './audit/entries.tsx';
import { ExportButtons } from './audit/export-buttons.tsx';
import { FilterForm, filterNames, type Filters } from './audit/filters.tsx';
import { HeatMap } from './audit/heat-map.tsx';
import { heatIntervalOf, intervalOf, type Range, rangeOf } from './audit/range.ts';
import { Timeline } from './audit/timeline.tsx';
import { Verification } from './audit/verification.tsx';

export function Audit() {
  return useMay('log:read') ? (
    <AuditPage />
  ) : (
    <>
      <PageHead title="Audit" />
      <Missing permission="log:read" />
    </>
  );
}

/** The filters of the page, for `/logs` and `/logs/summary` alike. */
function parametersOf(
  { range: _range, from: _from, to: _to, ...filters }: Filters,
  range: Range,
): Parameters {
  return { ...filters, start_date: range.from.toISOString(), end_date: range.to.toISOString() };
}

function AuditPage() {
  const [filters, setFilters] = useFilters(filterNames);
  const [page, setPage] = usePageNumber();
  // The end of the range stands still until it is renewed, so that the pages of the list do not move, and charts and list agree.
  const [now, setNow] = useState(() => new Date());
  const range = rangeOf(filters, now);
  const parameters = parametersOf(filters, range);
  const entries = useQuery<Page<LogEntry>>(withQuery('/logs', { ...parameters, page, size: 25 }));
  const change = (changes: Filters) => {
    setNow(new Date());
    setFilters({ ...Object.fromEntries(filterNames.map((name) => [name, ''])), ...changes });
  };
  const choose = ({ from, to }: Range, further: Filters = {}) =>
    change({ ...filters, ...further, range: '', from: from.toISOString(), to: to.toISOString() });
  return (
    <div className="stack">
      <PageHead title="Audit">
        <span className="muted small">
          {formatTime(range.from, 'minute')} – {formatTime(range.to, 'minute')} UTC
        </span>
        <Button onClick={() => setNow(new Date())}>Refresh</Button>
      </PageHead>
      <FilterForm filters={filters} range={range} onChange={change} />
      <Charts {...{ range, parameters, choose }} />
      <Card title="Entries" isFlush actions={<ExportButtons parameters={parameters} />}>
        <Entries query={entries} onPage={setPage} />
      </Card>
      <Verification key={range.to.getTime()} until={range.to} />
    </div>
  );
}

interface ChartsProps {
  readonly range: Range;
  readonly parameters: Parameters;
  readonly choose: (range: Range, further?: Filters) => void;
}

function Charts({ range, parameters, choose }: ChartsProps) {
  const counts = useQuery<LogSummary>(
    withQuery('/logs/summary', { ...parameters, interval: intervalOf(range) }),
  );
  const reveals = useQuery<LogSummary>(
    withQuery('/logs/summary', {
      ...parameters,
      transform: 'reveal',
      interval: heatIntervalOf(range),
      group_by: 'actor',
    }),
  );
  return (
    <>
      <Card title="Entries over time">
        <Loaded query={counts}>{(summary) => <Timeline {...{ summary, range }} onSelect={choose} />}</Loaded>
      </Card>
      <Card title={`Reveals by application and ${heatIntervalOf(range)}`}>
        <Loaded query={reveals}>
          {(summary) => (
            <HeatMap
              {...{ summary, range }}
              onSelect={(actor, chosen) => choose(chosen, { actor_id: actor, transform: 'reveal' })}
            />
          )}
        </Loaded>
      </Card>
    </>
  );
}
