import { useState } from 'react';
import type { Application, ApplicationKey } from '@token-vault/contracts';
import { call, withQuery } from '../../api/client.ts';
import { useAction, useQuery } from '../../api/use-query.ts';
import { useMay } from '../../app/session.tsx';
import { Confirm, Dialog } from '../../ui/dialog.tsx';
import { formatTime, fromInput, shortId } from '../../ui/format.ts';
import { Button, Card, SelectField, TextField } from '../../ui/parts.tsx';
import { Failure, Loaded } from '../../ui/states.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { KeyDialog } from './key-dialog.tsx';

type Open =
  { readonly what: 'add' | 'regenerate' } | { readonly what: 'delete'; readonly keyId: string } | undefined;

/** The keys of an application. A key itself is shown once, when it is made. */
export function Keys({ applicationId }: { readonly applicationId: string }) {
  const mayUpdate = useMay('application:update');
  const keys = useQuery<readonly ApplicationKey[]>(`/applications/${applicationId}/keys`);
  const [open, setOpen] = useState<Open>();
  const [made, setMade] = useState<string>();
  const close = () => setOpen(undefined);
  const show = (key: string | undefined) => {
    close();
    setMade(key);
    keys.reload();
  };
  const actions = mayUpdate && (
    <>
      <Button isSmall onClick={() => setOpen({ what: 'regenerate' })}>
        Regenerate
      </Button>
      <Button isSmall onClick={() => setOpen({ what: 'add' })}>
        Add key
      </Button>
    </>
  );
  const onDelete = mayUpdate ? (keyId: string) => setOpen({ what: 'delete', keyId }) : undefined;
  return (
    <Card title="Keys" isFlush actions={actions}>
      <Loaded query={keys}>
        {(data) => <Table label="Keys" rows={data} keyOf={({ id }) => id} columns={columnsOf(onDelete)} />}
      </Loaded>
      {open?.what === 'add' && <AddKey applicationId={applicationId} onMade={show} onClose={close} />}
      {open?.what === 'regenerate' && (
        <Regenerate applicationId={applicationId} onMade={show} onClose={close} />
      )}
      {open?.what === 'delete' && (
        <DeleteKey
          path={`/applications/${applicationId}/keys/${open.keyId}`}
          onDone={() => show(undefined)}
          onClose={close}
        />
      )}
      {made !== undefined && <KeyDialog secret={made} onClose={() => setMade(undefined)} />}
    </Card>
  );
}

const columnsOf = (onDelete: ((keyId: string) => void) | undefined): Column<ApplicationKey>[] => [
  {
    name: 'Key',
    show: ({ id }) => (
      <span className="mono" title={id}>
        {shortId(id)}
      </span>
    ),
  },
  { name: 'Created (UTC)', isNarrow: true, show: ({ created_at: at }) => formatTime(at, 'minute') },
  {
    // The vault keeps the hour of the last use only.
    name: 'Last used in the hour (UTC)',
    isNarrow: true,
    show: ({ last_used_at: at }) => formatTime(at, 'minute') || '–',
  },
  { name: 'Expires', isNarrow: true, show: ({ expires_at: at }) => formatTime(at, 'minute') || 'never' },
  ...(onDelete
    ? [
        {
          name: 'Action',
          show: ({ id }: ApplicationKey) => (
            <Button
              isSmall
              look="plain"
              aria-label={`Delete key ${shortId(id)}`}
              onClick={() => onDelete(id)}
            >
              Delete
            </Button>
          ),
        },
      ]
    : []),
];

interface MakeProps {
  readonly applicationId: string;
  readonly onMade: (key: string | undefined) => void;
  readonly onClose: () => void;
}

function AddKey({ applicationId, onMade, onClose }: MakeProps) {
  const [expiresAt, setExpiresAt] = useState('');
  const add = useAction(async () => {
    const expiry = fromInput(expiresAt);
    const body = expiry === undefined ? {} : { expires_at: expiry };
    onMade((await call<ApplicationKey>('POST', `/applications/${applicationId}/keys`, { body })).key);
  });
  return (
    <Dialog title="Add a key" onClose={onClose}>
      <TextField
        label="Expires (UTC)"
        type="datetime-local"
        hint="Empty: the key does not expire."
        value={expiresAt}
        onChange={setExpiresAt}
      />
      {add.error && <Failure error={add.error} />}
      <div className="row end">
        <Button onClick={onClose}>Cancel</Button>
        <Button look="primary" disabled={add.isRunning} onClick={() => void add.run()}>
          Make the key
        </Button>
      </div>
    </Dialog>
  );
}

const overlaps = [
  { value: '0', label: 'At once' },
  { value: '3600', label: 'After 1 hour' },
  { value: '86400', label: 'After 1 day' },
  { value: '604800', label: 'After 7 days' },
  { value: '2592000', label: 'After 30 days' },
];

function Regenerate({ applicationId, onMade, onClose }: MakeProps) {
  const [overlap, setOverlap] = useState('86400');
  const regenerate = useAction(async () => {
    const path = withQuery(`/applications/${applicationId}/regenerate`, { overlap });
    onMade((await call<Application>('POST', path)).key);
  });
  return (
    <Dialog title="Replace the main key" onClose={onClose}>
      <SelectField label="The key before stops" value={overlap} choices={overlaps} onChange={setOverlap} />
      <p className="muted small">
        Until then both keys work, so that clients can change over without a failed request.
      </p>
      {regenerate.error && <Failure error={regenerate.error} />}
      <div className="row end">
        <Button onClick={onClose}>Cancel</Button>
        <Button look="primary" disabled={regenerate.isRunning} onClick={() => void regenerate.run()}>
          Make the new key
        </Button>
      </div>
    </Dialog>
  );
}

interface DeleteProps {
  readonly path: string;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

function DeleteKey({ path, onDone, onClose }: DeleteProps) {
  const remove = useAction(async () => {
    await call('DELETE', path);
    onDone();
  });
  return (
    <Confirm
      title="Delete this key?"
      action="Delete key"
      isRunning={remove.isRunning}
      onClose={onClose}
      onConfirm={() => void remove.run()}
    >
      <p>Requests with it are refused at once, on every process.</p>
      {remove.error && <Failure error={remove.error} />}
    </Confirm>
  );
}
