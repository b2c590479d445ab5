import { useState } from 'react';
import type { Reactor as ReactorAnswer } from '@token-vault/contracts';
import { call } from '../api/client.ts';
import { useAction, useQuery } from '../api/use-query.ts';
import { go, hrefOf } from '../app/router.ts';
import { useMay } from '../app/session.tsx';
import { Confirm } from '../ui/dialog.tsx';
import { Button, PageHead } from '../ui/parts.tsx';
import { Failure, Loaded, Missing } from '../ui/states.tsx';
import { ReactorForm } from './reactors/form.tsx';
import { RunPane } from './reactors/run-pane.tsx';
import { Runs } from './reactors/runs.tsx';

export function Reactor({ id }: { readonly id: string }) {
  const mayRead = useMay('reactor:read');
  const mayUpdate = useMay('reactor:update');
  const [isStored, setStored] = useState(true);
  const reactor = useQuery<ReactorAnswer>(mayRead ? `/reactors/${id}` : undefined);
  if (!mayRead) return <Missing permission="reactor:read" />;
  return (
    <Loaded query={reactor}>
      {(data) => (
        <div className="stack">
          <Head reactor={data} />
          <div className="two">
            <ReactorForm
              reactor={data}
              isReadOnly={!mayUpdate}
              onTouched={() => setStored(false)}
              onSaved={() => {
                setStored(true);
                reactor.reload();
              }}
            />
            <RunPane reactorId={id} isStored={isStored} />
          </div>
          <Runs reactorId={id} />
        </div>
      )}
    </Loaded>
  );
}

export function NewReactor() {
  const mayCreate = useMay('reactor:create');
  return (
    <div className="stack">
      <PageHead title="New reactor" />
      {mayCreate ? (
        <ReactorForm onSaved={({ id }) => go(hrefOf(['reactors', id]))} />
      ) : (
        <Missing permission="reactor:create" />
      )}
    </div>
  );
}

function Head({ reactor }: { readonly reactor: ReactorAnswer }) {
  const mayDelete = useMay('reactor:delete');
  const [isOpen, setOpen] = useState(false);
  const remove = useAction(async () => {
    await call('DELETE', `/reactors/${reactor.id}`);
    go(hrefOf(['reactors']));
  });
  return (
    <>
      <PageHead title={reactor.name}>
        {mayDelete && (
          <Button look="danger" onClick={() => setOpen(true)}>
            Delete
          </Button>
        )}
        <a className="button" href={hrefOf(['reactors'])}>
          All reactors
        </a>
      </PageHead>
      {isOpen && (
        <Confirm
          title={`Delete ${reactor.name}?`}
          action="Delete reactor"
          isRunning={remove.isRunning}
          onClose={() => setOpen(false)}
          onConfirm={() => void remove.run()}
        >
          <p>Its code and its configuration are gone. This cannot be taken back.</p>
          {remove.error && <Failure error={remove.error} />}
        </Confirm>
      )}
    </>
  );
}
