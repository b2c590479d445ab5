import { lazy, Suspense, useState } from 'react';
import type { Application, Reactor } from '@token-vault/contracts';
import { call, type Page, withQuery } from '../../api/client.ts';
import { useAction, useQuery } from '../../api/use-query.ts';
import { useMay } from '../../app/session.tsx';
import { Button, Card, SelectField, TextField } from '../../ui/parts.tsx';
import { Failure } from '../../ui/states.tsx';
import { Settings, settingsOf, valuesOf, type Setting } from '../../ui/settings.tsx';
import { faultOf } from './fault.ts';

const CodeEditor = lazy(() => import('../../ui/code-editor.tsx'));

const example = `module.exports = async function (req) {
  return { raw: { hello: req.args.name } };
};
`;

interface ReactorFormProps {
  /** Absent: a new reactor is created. */
  readonly reactor?: Reactor;
  readonly isReadOnly?: boolean;
  readonly onTouched?: () => void;
  readonly onSaved: (reactor: Reactor) => void;
}

interface Draft {
  readonly name: string;
  readonly code: string;
  readonly settings: readonly Setting[];
  readonly applicationId: string;
}

const draftOf = (reactor: Reactor | undefined): Draft => ({
  name: reactor?.name ?? '',
  code: reactor?.code ?? example,
  settings: settingsOf(reactor?.configuration ?? {}),
  applicationId: reactor?.application?.id ?? '',
});

function store(reactor: Reactor | undefined, draft: Draft): Promise<Reactor> {
  const body = {
    name: draft.name,
    code: draft.code,
    configuration: valuesOf(draft.settings),
    ...(draft.applicationId !== '' && { application: { id: draft.applicationId } }),
  };
  return reactor === undefined
    ? call('POST', '/reactors', { body })
    : call('PUT', `/reactors/${reactor.id}`, { body });
}

function statusOf(isReadOnly: boolean, isSaved: boolean): string {
  if (isReadOnly) return 'Changing it needs the permission reactor:update.';
  return isSaved ? 'Saved' : '';
}

/** The code of a reactor, its configuration and its application. The vault compiles the saved code; the editor marks the place of an error. */
export function ReactorForm({ reactor, isReadOnly = false, onTouched, onSaved }: ReactorFormProps) {
  const [draft, setDraft] = useState(() => draftOf(reactor));
  const set = (changes: Partial<Draft>) => {
    setDraft((before) => ({ ...before, ...changes }));
    onTouched?.();
  };
  const [isSaved, setSaved] = useState(false);
  const save = useAction(async () => {
    setSaved(false);
    const saved = await store(reactor, draft);
    setSaved(true);
    onSaved(saved);
  });
  return (
    <Card title="Code">
      <div className="form">
        <div className="filters">
          <TextField label="Name" required value={draft.name} onChange={(name) => set({ name })} />
          <ApplicationField
            value={draft.applicationId}
            onChange={(applicationId) => set({ applicationId })}
          />
        </div>
        <Suspense fallback={<p className="empty">Loading the editor …</p>}>
          <CodeEditor
            label="Code of the reactor"
            value={draft.code}
            fault={faultOf(save.error)}
            isReadOnly={isReadOnly}
            onChange={(code) => set({ code })}
          />
        </Suspense>
        {save.error && <Failure error={save.error} />}
        <Settings
          label="Configuration"
          settings={draft.settings}
          onChange={(settings) => set({ settings })}
        />
        <SaveRow
          label={reactor === undefined ? 'Create' : 'Save'}
          isDisabled={isReadOnly || save.isRunning || draft.name === ''}
          status={statusOf(isReadOnly, isSaved && !save.error)}
          onSave={() => void save.run()}
        />
      </div>
    </Card>
  );
}

interface SaveRowProps {
  readonly label: string;
  readonly isDisabled: boolean;
  readonly status: string;
  readonly onSave: () => void;
}

function SaveRow({ label, isDisabled, status, onSave }: SaveRowProps) {
  return (
    <div className="row">
      <Button look="primary" disabled={isDisabled} onClick={onSave}>
        {label}
      </Button>
      <span role="status" className="muted small">
        {status}
      </span>
    </div>
  );
}

interface ApplicationFieldProps {
  readonly value: string;
  readonly onChange: (id: string) => void;
}

/** The application whose rights the code has. */
function ApplicationField({ value, onChange }: ApplicationFieldProps) {
  const mayRead = useMay('application:read');
  const applications = useQuery<Page<Application>>(
    mayRead ? withQuery('/applications', { type: ['private', 'public'], size: 100 }) : undefined,
  );
  const offered = applications.data?.data ?? [];
  const total = applications.data?.pagination.total_items ?? 0;
  if (!mayRead || total > offered.length) {
    return <TextField label="Application id" value={value} onChange={onChange} />;
  }
  return (
    <SelectField
      label="Application"
      value={value}
      choices={[{ value: '', label: 'None' }, ...offered.map(({ id, name }) => ({ value: id, label: name }))]}
      onChange={onChange}
    />
  );
}
