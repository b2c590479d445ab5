import { useState } from 'react';
import { withQuery } from '../../api/client.ts';
import type { AccessMatrix } from '@token-vault/contracts';
import { useQuery } from '../../api/use-query.ts';
import { useMay } from '../../app/session.tsx';
import { Button, Card } from '../../ui/parts.tsx';
import { Missing } from '../../ui/states.tsx';
import { PagedTable } from '../../ui/table.tsx';
import { Access } from '../applications/access.tsx';
import { Explained } from '../applications/explained.tsx';

interface WhoSeesProps {
  readonly tokenId: string;
  /** Undefined when the token cannot be read. The explanation needs only its id. */
  readonly container: string | undefined;
}

/** The transform by which each application sees the token, and the rule that decides it. */
export function WhoSees({ tokenId, container }: WhoSeesProps) {
  const mayRead = useMay('application:read');
  return (
    <Card title="Who sees what of it" isFlush={mayRead}>
      {mayRead ? <List tokenId={tokenId} container={container} /> : <Missing permission="application:read" />}
    </Card>
  );
}

function List({ tokenId, container }: WhoSeesProps) {
  const [page, setPage] = useState(1);
  const [chosen, setChosen] = useState<string>();
  const access = useQuery<AccessMatrix>(
    withQuery('/applications/access', { type: ['private', 'public'], container, page, size: 10 }),
  );
  const column = container === undefined ? undefined : access.data?.containers.indexOf(container);
  return (
    <>
      <PagedTable
        label="What each application sees of the token"
        query={access}
        onPage={setPage}
        keyOf={({ id }) => id}
        columns={[
          { name: 'Application', show: ({ name }) => name },
          {
            name: 'Sees',
            show: ({ access: cells }) =>
              column === undefined || column < 0 ? '' : <Access cell={cells[column]} />,
          },
          {
            name: 'Rule',
            show: ({ id, name }) => (
              <Button
                isSmall
                aria-label={`Explain what ${name} sees`}
                aria-expanded={chosen === id}
                onClick={() => setChosen(chosen === id ? undefined : id)}
              >
                Explain
              </Button>
            ),
          },
        ]}
        empty="No application can hold rights on tokens yet."
      />
      {chosen !== undefined && (
        <div className="body">
          <Explained applicationId={chosen} tokenId={tokenId} />
        </div>
      )}
    </>
  );
}
