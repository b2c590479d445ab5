import { type FormEvent, useState } from 'react';
import { withQuery } from '../../api/client.ts';
import type { AccessMatrix } from '@token-vault/contracts';
import { useQuery } from '../../api/use-query.ts';
import { hrefOf } from '../../app/router.ts';
import { Button, Card, TextField } from '../../ui/parts.tsx';
import { type Column, PagedTable } from '../../ui/table.tsx';
import { Access } from './access.tsx';

type Row = AccessMatrix['data'][number];

const columnsOf = (containers: readonly string[]): Column<Row>[] => [
  { name: 'Application', show: ({ id, name }) => <a href={hrefOf(['applications', id])}>{name}</a> },
  ...containers.map((name, index) => ({
    name,
    show: ({ access: cells }: Row) => <Access cell={cells[index]} />,
  })),
];

/** Application × container: how the data of tokens is shown. The vault computes it by the functions that decide each request. */
export function Matrix() {
  const [page, setPage] = useState(1);
  const [container, setContainer] = useState('');
  const [draft, setDraft] = useState('');
  const access = useQuery<AccessMatrix>(
    withQuery('/applications/access', { type: ['private', 'public'], container, page, size: 20 }),
  );
  const choose = (event: FormEvent) => {
    event.preventDefault();
    setPage(1);
    setContainer(draft);
  };
  return (
    <Card
      title="Who sees what"
      isFlush
      actions={
        <form className="row" onSubmit={choose} aria-label="Containers of the table">
          <TextField label="Containers below" placeholder="/" value={draft} onChange={setDraft} />
          <Button type="submit" isSmall>
            Show
          </Button>
        </form>
      }
    >
      <PagedTable
        label="Who sees what: application by container"
        query={access}
        onPage={setPage}
        keyOf={({ id }) => id}
        columns={columnsOf(access.data?.containers ?? [])}
        empty="No application can hold rights on tokens yet."
      />
      {access.data?.more_containers && (
        <p className="body muted small">There are more containers than columns. Choose a container above.</p>
      )}
    </Card>
  );
}
