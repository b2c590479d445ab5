import { useState } from 'react';
import { call } from '../api/client.ts';
import type { VaultOperations } from '@token-vault/contracts';
import { useAction, useQuery } from '../api/use-query.ts';
import { useSession } from '../app/session.tsx';
import { Confirm } from '../ui/dialog.tsx';
import { formatAgo, formatNumber, formatTime, plural } from '../ui/format.ts';
import { Badge, Button, Card, Facts, PageHead } from '../ui/parts.tsx';
import { Failure, Loaded, Note } from '../ui/states.tsx';
import { type Column, Table } from '../ui/table.tsx';
import { StatusBadge } from './overview.tsx';

export function Operations() {
  const { session } = useSession();
  return (
    <div className="stack">
      <PageHead title="Operations" />
      {session.is_operator ? (
        <State />
      ) : (
        <Note tone="warn">
          <strong>Your key does not allow this.</strong>
          <span>
            The whole vault is shown to its operator only: to a management key of the first tenant with the
            permission <code>tenant:update</code>.
          </span>
        </Note>
      )}
    </div>
  );
}

type Act = 'rebuild' | 'pause' | 'resume' | 'cancel';

/** The actions that are done only when they are confirmed, with their consequence. */
const confirmed: Readonly<Partial<Record<Act, { readonly verb: string; readonly consequence: string }>>> = {
  rebuild: {
    verb: 'Rebuild',
    consequence:
      'It is filled again from the log beside the live one, which answers until the new one takes its place.',
  },
  pause: {
    verb: 'Pause',
    consequence: 'Until it is resumed, requests that need it are answered 503.',
  },
};

function State() {
  const [isFast, setFast] = useState(false);
  const state = useQuery<VaultOperations>('/operations', { everyMs: isFast ? 1000 : 5000 });
  const act = useAction(async (name: string, action: Act) => {
    await call('POST', `/operations/projections/${name}`, { body: { action } });
    setFast(true);
    state.reload();
  });
  const [asked, setAsked] = useState<Asked>();
  return (
    <Loaded query={state}>
      {(data) => (
        <>
          {act.error && <Failure error={act.error} />}
          <ReadModels
            data={data}
            onAct={(name, action) =>
              confirmed[action] ? setAsked({ name, action }) : void act.run(name, action)
            }
          />
          <div className="two">
            <Keys keys={data.keys} />
            <Housekeeping tasks={data.housekeeping} />
          </div>
          <Release release={data.release} settings={data.settings} />
          {asked && (
            <Question
              asked={asked}
              isRunning={act.isRunning}
              onClose={() => setAsked(undefined)}
              onConfirm={() => {
                setAsked(undefined);
                void act.run(asked.name, asked.action);
              }}
            />
          )}
        </>
      )}
    </Loaded>
  );
}

interface ReadModelsProps {
  readonly data: VaultOperations;
  readonly onAct: (name: string, action: Act) => void;
}

function ReadModels({ data, onAct }: ReadModelsProps) {
  return (
    <Card
      title="Read models"
      isFlush
      actions={<span className="muted small">Log at position {data.head}</span>}
    >
      <Table
        label="Read models"
        rows={data.projections}
        keyOf={({ name }) => name}
        columns={columnsOf(onAct)}
      />
    </Card>
  );
}

interface Asked {
  readonly name: string;
  readonly action: Act;
}
interface QuestionProps {
  readonly asked: Asked;
  readonly isRunning: boolean;
  readonly onClose: () => void;
  readonly onConfirm: () => void;
}

function Question({ asked, ...dialog }: QuestionProps) {
  const question = confirmed[asked.action];
  if (!question) return undefined;
  return (
    <Confirm title={`${question.verb} ${asked.name}?`} action={question.verb} {...dialog}>
      <p>{question.consequence}</p>
    </Confirm>
  );
}

type Projection = VaultOperations['projections'][number];

const columnsOf = (onAct: (name: string, action: Act) => void): Column<Projection>[] => [
  { name: 'Name', show: ({ name, version }) => `${name} ${version}` },
  {
    name: 'State',
    show: ({ status, error }) => (
      <>
        <StatusBadge status={status} />
        {error && <span className="muted small"> {error.code}</span>}
      </>
    ),
  },
  { name: 'Behind', isNumber: true, show: ({ behind }) => plural(behind, 'event') },
  { name: 'Updated', isNarrow: true, show: ({ updated_at: at }) => formatAgo(at) },
  { name: 'Rebuild', show: (projection) => <Rebuild projection={projection} /> },
  { name: 'Actions', show: (projection) => <Actions projection={projection} onAct={onAct} /> },
];

function Rebuild({ projection: { name, rebuild } }: { readonly projection: Projection }) {
  if (rebuild === undefined) return <span className="muted">none</span>;
  const percent = Math.floor(rebuild.progress * 100);
  return (
    <span className="stack-tight">
      <span className="small">
        {rebuild.purpose}, {rebuild.status}: {percent} %{rebuild.error && ` (${rebuild.error.code})`}
      </span>
      <progress className="progress" max={1} value={rebuild.progress} aria-label={`Rebuild of ${name}`} />
    </span>
  );
}

interface ActionsProps {
  readonly projection: Projection;
  readonly onAct: (name: string, action: Act) => void;
}

function Actions({ projection, onAct }: ActionsProps) {
  const { name, status, rebuild } = projection;
  const isPaused = (rebuild?.status ?? status) === 'paused' || status === 'paused';
  const offered: readonly Act[] = rebuild
    ? ['cancel', isPaused ? 'resume' : 'pause']
    : ['rebuild', isPaused ? 'resume' : 'pause'];
  return (
    <span className="row">
      {offered.map((action) => (
        <Button key={action} isSmall aria-label={`${action} ${name}`} onClick={() => onAct(name, action)}>
          {action}
        </Button>
      ))}
    </span>
  );
}

function Keys({ keys }: { readonly keys: VaultOperations['keys'] }) {
  const rotating = keys.is_root_rotating || keys.tenants_rotating > 0;
  return (
    <Card
      title="Keys"
      actions={<Badge tone={rotating ? 'info' : 'ok'}>{rotating ? 'rotating' : 'at rest'}</Badge>}
    >
      <Facts
        facts={[
          ['Root keys', formatNumber(keys.root_keys)],
          ['Root rotation', keys.is_root_rotating ? 'in progress' : 'none'],
          ['Tenants', formatNumber(keys.tenants)],
          ['Tenants rotating', formatNumber(keys.tenants_rotating)],
        ]}
      />
    </Card>
  );
}

function Housekeeping({ tasks }: { readonly tasks: VaultOperations['housekeeping'] }) {
  return (
    <Card title="Housekeeping" isFlush>
      <Table
        label="Housekeeping"
        rows={tasks}
        keyOf={({ task }) => task}
        empty="No task has reported yet."
        columns={[
          { name: 'Task', show: ({ task }) => task },
          {
            name: 'Last done',
            isNarrow: true,
            show: ({ updated_at: at }) => <span title={formatTime(at)}>{formatAgo(at)}</span>,
          },
        ]}
      />
    </Card>
  );
}

function Release({ release, settings }: Pick<VaultOperations, 'release' | 'settings'>) {
  return (
    <Card title={`Release ${release}`} isFlush>
      <Table
        label="Settings"
        rows={settings}
        keyOf={({ name }) => name}
        empty="Every setting has its default."
        columns={[
          { name: 'Setting', show: ({ name }) => <code>{name}</code> },
          { name: 'Value', show: ({ value }) => <code>{value}</code> },
        ]}
      />
    </Card>
  );
}
