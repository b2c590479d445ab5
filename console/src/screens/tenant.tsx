import { useCallback, useState } from 'react';
import type { Tenant as TenantAnswer, UsageReport } from '@token-vault/contracts';
import { call, withQuery } from '../api/client.ts';
import { useAction, useQuery } from '../api/use-query.ts';
import { useMay } from '../app/session.tsx';
import { Chart, Numbers } from '../ui/chart.tsx';
import { formatNumber, formatTime } from '../ui/format.ts';
import { Badge, Button, Card, Facts, PageHead, TextField } from '../ui/parts.tsx';
import { Failure, Loaded, Missing } from '../ui/states.tsx';
import { Table } from '../ui/table.tsx';
import { type Setting, Settings, settingsOf, valuesOf } from '../ui/settings.tsx';

type Usage = UsageReport['token_report'];

/** Months of the chart, the present one included. */
const shownMonths = 12;

export function Tenant() {
  const mayRead = useMay('tenant:read');
  const mayReport = useMay('report:read');
  const tenant = useQuery<TenantAnswer>(mayRead ? '/tenants/self' : undefined);
  const usage = useQuery<UsageReport>(mayReport ? '/tenants/self/reports/usage' : undefined);
  return (
    <div className="stack">
      <PageHead title="Tenant" />
      {mayRead ? (
        <Loaded query={tenant}>
          {(data) => <About key={data.modified_at} tenant={data} onSaved={tenant.reload} />}
        </Loaded>
      ) : (
        <Missing permission="tenant:read" />
      )}
      {mayReport ? (
        <Loaded query={usage}>{(data) => <UsageCards usage={data.token_report} />}</Loaded>
      ) : (
        <Missing permission="report:read" />
      )}
    </div>
  );
}

interface AboutProps {
  readonly tenant: TenantAnswer;
  readonly onSaved: () => void;
}

function TenantFacts({ tenant }: Pick<AboutProps, 'tenant'>) {
  return (
    <Card title="Tenant">
      <Facts
        facts={[
          ['Id', <code key="id">{tenant.id}</code>],
          [
            'Plan',
            <Badge key="plan" tone="info">
              {tenant.plan}
            </Badge>,
          ],
          ['Created', `${formatTime(tenant.created_at)} UTC`],
          ['Changed', tenant.modified_at && `${formatTime(tenant.modified_at)} UTC`],
        ]}
      />
    </Card>
  );
}

function About({ tenant, onSaved }: AboutProps) {
  const mayUpdate = useMay('tenant:update');
  const [name, setName] = useState(tenant.name);
  const [settings, setSettings] = useState<readonly Setting[]>(() => settingsOf(tenant.settings));
  const save = useAction(async () => {
    await call('PUT', '/tenants/self', { body: { name, settings: valuesOf(settings) } });
    onSaved();
  });
  return (
    <div className="two">
      <TenantFacts tenant={tenant} />
      <Card title="Settings">
        <div className="form">
          <TextField label="Name of the tenant" value={name} onChange={setName} />
          <Settings label="Settings" settings={settings} onChange={setSettings} />
          {save.error && <Failure error={save.error} />}
          <div className="row">
            <Button look="primary" disabled={!mayUpdate || save.isRunning} onClick={() => void save.run()}>
              Save
            </Button>
            {!mayUpdate && (
              <span className="muted small">Changing them needs the permission tenant:update.</span>
            )}
          </div>
        </div>
      </Card>
    </div>
  );
}

function UsageCards({ usage }: { readonly usage: Usage }) {
  const types = Object.entries(usage.metrics_by_type);
  return (
    <div className="two">
      <Card title="Usage">
        <Facts
          facts={[
            ['Active tokens this month', formatNumber(usage.monthly_active_tokens)],
            ['Tokens in all', formatNumber(usage.total_tokens)],
          ]}
        />
      </Card>
      <Card title="Usage by month">
        <ByMonth />
      </Card>
      <Card title="Tokens by type" isFlush>
        <Table
          label="Tokens by type"
          rows={types}
          keyOf={([type]) => type}
          empty="There are no tokens."
          columns={[
            { name: 'Type', show: ([type]) => type },
            { name: 'Tokens', isNumber: true, show: ([, { count }]) => formatNumber(count) },
            {
              name: 'Last created (UTC)',
              isNarrow: true,
              show: ([, { last_created_at: at }]) => formatTime(at),
            },
          ]}
        />
      </Card>
    </div>
  );
}

/** Read by itself: in a large log the months take longer than all else, or too long. */
function ByMonth() {
  const usage = useQuery<UsageReport>(withQuery('/tenants/self/reports/usage', { months: shownMonths }));
  return (
    <Loaded query={usage}>
      {({ token_report: { months } }) => (months ? <Months months={months} /> : null)}
    </Loaded>
  );
}

function Months({ months }: { readonly months: NonNullable<Usage['months']> }) {
  const draw = useCallback<Parameters<typeof Chart>[0]['draw']>(
    (plot) => ({
      height: 160,
      marginLeft: 56,
      x: { type: 'band', label: null, padding: 0.3 },
      y: { grid: true, label: null, ticks: 4, nice: true },
      marks: [plot.barY(months, { x: 'month', y: 'monthly_active_tokens', fill: 'var(--chart-1)' })],
    }),
    [months],
  );
  return (
    <>
      <Chart label="Active tokens by month" draw={draw} />
      <Numbers
        label="Numbers by month"
        columns={['Month', 'Active tokens']}
        rows={months.map(({ month, monthly_active_tokens: count }) => [month, count])}
      />
    </>
  );
}
