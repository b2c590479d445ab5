import { type FormEvent, useState } from 'react';
import type { Application } from '@token-vault/contracts';
import { call, withQuery } from '../../api/client.ts';
import { useAction, useQuery } from '../../api/use-query.ts';
import { Dialog } from '../../ui/dialog.tsx';
import { fromInput } from '../../ui/format.ts';
import { Button, SelectField, TextField } from '../../ui/parts.tsx';
import { Failure } from '../../ui/states.tsx';
import { type DraftRule, draftsOf, rulesOf } from './rules.ts';
import { Permissions, RulesEditor } from './rules-editor.tsx';

interface PermissionOffer {
  readonly type: string;
  readonly description: string;
}

interface ApplicationDialogProps {
  /** Absent: a new application is created. */
  readonly application?: Application;
  readonly onSaved: (application: Application) => void;
  readonly onClose: () => void;
}

interface Draft {
  readonly name: string;
  readonly type: string;
  readonly permissions: readonly string[];
  readonly rules: readonly DraftRule[];
  readonly expiresAt: string;
}

const draftOf = (application: Application | undefined): Draft => ({
  name: application?.name ?? '',
  type: application?.type ?? 'private',
  permissions: application?.permissions ?? [],
  rules: draftsOf(application?.rules),
  expiresAt: '',
});

function store(application: Application | undefined, draft: Draft): Promise<Application> {
  const { name, type, permissions, rules } = draft;
  const granted = { name, permissions, ...(type !== 'management' && { rules: rulesOf(rules) }) };
  if (application !== undefined) return call('PUT', `/applications/${application.id}`, { body: granted });
  const expiry = fromInput(draft.expiresAt);
  return call('POST', '/applications', { body: { ...granted, type, ...(expiry && { expires_at: expiry }) } });
}

/** Creates or changes an application. The type of one never changes. */
export function ApplicationDialog({ application, onSaved, onClose }: ApplicationDialogProps) {
  const isNew = application === undefined;
  const [draft, setDraft] = useState(() => draftOf(application));
  const set = (changes: Partial<Draft>) => setDraft((before) => ({ ...before, ...changes }));
  const { type, permissions, rules } = draft;
  const offers = useQuery<readonly PermissionOffer[]>(withQuery('/permissions', { application_type: type }));
  const all = offers.data?.map((offer) => offer.type) ?? [];
  const save = useAction(() => store(application, draft));
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const saved = await save.run();
    if (saved !== undefined) onSaved(saved);
  };
  return (
    <Dialog title={isNew ? 'Create application' : `Edit ${application.name}`} isWide onClose={onClose}>
      <form className="form" onSubmit={(event) => void submit(event)}>
        <NameAndType draft={draft} isNew={isNew} set={set} />
        <Permissions
          label={
            type === 'management' ? 'Permissions' : 'Plain permissions: on every token, with masked data'
          }
          all={all}
          chosen={permissions}
          onChange={(chosen) => set({ permissions: chosen })}
        />
        {type !== 'management' && (
          <RulesEditor rules={rules} permissions={all} onChange={(changed) => set({ rules: changed })} />
        )}
        {save.error && <Failure error={save.error} />}
        <div className="row end">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" disabled={save.isRunning}>
            {isNew ? 'Create' : 'Save'}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

interface NameAndTypeProps {
  readonly draft: Draft;
  readonly isNew: boolean;
  readonly set: (changes: Partial<Draft>) => void;
}

function NameAndType({ draft, isNew, set }: NameAndTypeProps) {
  return (
    <div className="filters">
      <TextField
        label="Name"
        required
        maxLength={200}
        value={draft.name}
        onChange={(name) => set({ name })}
      />
      <SelectField
        label="Type"
        value={draft.type}
        disabled={!isNew}
        choices={['private', 'public', 'management']}
        onChange={(type) => set({ type, permissions: [] })}
      />
      {isNew && (
        <TextField
          label="Expires (UTC)"
          type="datetime-local"
          value={draft.expiresAt}
          onChange={(expiresAt) => set({ expiresAt })}
        />
      )}
    </div>
  );
}
