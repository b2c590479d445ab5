import { useState } from 'react';
import type { Application as ApplicationAnswer } from '@token-vault/contracts';
import { call } from '../api/client.ts';
import { useAction, useQuery } from '../api/use-query.ts';
import { go, hrefOf } from '../app/router.ts';
import { useMay } from '../app/session.tsx';
import { Confirm } from '../ui/dialog.tsx';
import { formatTime } from '../ui/format.ts';
import { Button, Card, Facts, PageHead, Shown } from '../ui/parts.tsx';
import { Failure, Loaded, Missing } from '../ui/states.tsx';
import { Table } from '../ui/table.tsx';
import { ApplicationDialog } from './applications/application-dialog.tsx';
import { Explain } from './applications/explain.tsx';
import { Keys } from './applications/keys.tsx';

export function Application({ id }: { readonly id: string }) {
  const mayRead = useMay('application:read');
  const application = useQuery<ApplicationAnswer>(mayRead ? `/applications/${id}` : undefined);
  return mayRead ? (
    <Loaded query={application}>
      {(data) => (
        <div className="stack">
          <Head application={data} onChanged={application.reload} />
          <div className="two">
            <div className="stack">
              <About application={data} />
              <Rules rules={data.rules ?? []} />
            </div>
            <div className="stack">
              <Keys applicationId={id} />
              {data.type !== 'management' && <Explain applicationId={id} />}
            </div>
          </div>
        </div>
      )}
    </Loaded>
  ) : (
    <Missing permission="application:read" />
  );
}

interface HeadProps {
  readonly application: ApplicationAnswer;
  readonly onChanged: () => void;
}

function Head({ application, onChanged }: HeadProps) {
  const mayUpdate = useMay('application:update');
  const mayDelete = useMay('application:delete');
  const [open, setOpen] = useState<'edit' | 'delete'>();
  const close = () => setOpen(undefined);
  return (
    <>
      <PageHead title={application.name}>
        {mayUpdate && <Button onClick={() => setOpen('edit')}>Edit</Button>}
        {mayDelete && (
          <Button look="danger" onClick={() => setOpen('delete')}>
            Delete
          </Button>
        )}
        <a className="button" href={hrefOf(['applications'])}>
          All applications
        </a>
      </PageHead>
      {open === 'edit' && (
        <ApplicationDialog
          application={application}
          onClose={close}
          onSaved={() => {
            close();
            onChanged();
          }}
        />
      )}
      {open === 'delete' && <DeleteDialog application={application} onClose={close} />}
    </>
  );
}

interface DeleteProps {
  readonly application: ApplicationAnswer;
  readonly onClose: () => void;
}

function DeleteDialog({ application, onClose }: DeleteProps) {
  const remove = useAction(async () => {
    await call('DELETE', `/applications/${application.id}`);
    go(hrefOf(['applications']));
  });
  return (
    <Confirm
      title={`Delete ${application.name}?`}
      action="Delete application"
      isRunning={remove.isRunning}
      onClose={onClose}
      onConfirm={() => void remove.run()}
    >
      <p>Its keys stop working at once, on every process. This cannot be taken back.</p>
      {remove.error && <Failure error={remove.error} />}
    </Confirm>
  );
}

function About({ application }: { readonly application: ApplicationAnswer }) {
  const {
    id,
    type,
    permissions = [],
    created_at: created,
    modified_at: changed,
    expires_at: expires,
  } = application;
  return (
    <Card title="Application">
      <Facts
        facts={[
          ['Id', <code key="id">{id}</code>],
          ['Type', type],
          ['Permissions', permissions.length > 0 && <code key="permissions">{permissions.join(' ')}</code>],
          ['Created', created && `${formatTime(created)} UTC`],
          ['Changed', changed && `${formatTime(changed)} UTC`],
          ['Expires', expires && `${formatTime(expires)} UTC`],
        ]}
      />
    </Card>
  );
}

function Rules({ rules }: { readonly rules: NonNullable<ApplicationAnswer['rules']> }) {
  return (
    <Card title="Access rules" isFlush>
      <Table
        label="Access rules"
        rows={rules.toSorted((left, right) => left.priority - right.priority)}
        keyOf={({ priority }) => String(priority)}
        empty="There are no rules. The plain permissions show masked data."
        columns={[
          { name: 'Priority', show: ({ priority }) => priority },
          { name: 'Container', show: ({ container }) => <code>{container}</code> },
          { name: 'Shows', show: ({ transform }) => <Shown transform={transform} /> },
          {
            name: 'Permissions',
            show: ({ permissions, reason, break_glass: isBreakGlass, description }) => (
              <>
                <code>{permissions.join(' ')}</code>
                <div className="muted small">
                  {[description, reason && 'only with a reason', isBreakGlass && 'break glass']
                    .filter(Boolean)
                    .join(' · ')}
                </div>
              </>
            ),
          },
        ]}
      />
    </Card>
  );
}
