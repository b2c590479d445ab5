import { type FormEvent, useState } from 'react';
import type { Reactor } from '@token-vault/contracts';
import { type Page, withQuery } from '../api/client.ts';
import { useQuery } from '../api/use-query.ts';
import { hrefOf, useFilters, usePageNumber } from '../app/router.ts';
import { useMay } from '../app/session.tsx';
import { formatTime } from '../ui/format.ts';
import { Button, Card, PageHead, TextField } from '../ui/parts.tsx';
import { Missing } from '../ui/states.tsx';
import { type Column, PagedTable } from '../ui/table.tsx';
import { Runs } from './reactors/runs.tsx';

const columns: Column<Reactor>[] = [
  { name: 'Name', show: ({ id, name }) => <a href={hrefOf(['reactors', id])}>{name}</a> },
  { name: 'Application', show: ({ application }) => application?.name ?? application?.id ?? '–' },
  { name: 'Configuration', show: ({ configuration }) => Object.keys(configuration).join(', ') || '–' },
  { name: 'Created (UTC)', isNarrow: true, show: ({ created_at: at }) => formatTime(at, 'minute') },
  { name: 'Changed (UTC)', isNarrow: true, show: ({ modified_at: at }) => formatTime(at, 'minute') || '–' },
];

export function Reactors() {
  const mayRead = useMay('reactor:read');
  const mayCreate = useMay('reactor:create');
  return (
    <div className="stack">
      <PageHead title="Reactors">
        {mayCreate && (
          <a className="button primary" href={hrefOf(['reactors', 'new'])}>
            Create reactor
          </a>
        )}
      </PageHead>
      {mayRead ? (
        <>
          <List />
          <Runs />
        </>
      ) : (
        <Missing permission="reactor:read" />
      )}
    </div>
  );
}

function List() {
  const [filters, setFilters] = useFilters(['name']);
  const [draft, setDraft] = useState(filters.name ?? '');
  const [page, setPage] = usePageNumber();
  const reactors = useQuery<Page<Reactor>>(withQuery('/reactors', { name: filters.name, page, size: 20 }));
  const search = (event: FormEvent) => {
    event.preventDefault();
    setFilters({ name: draft });
  };
  return (
    <Card
      title="All reactors"
      isFlush
      actions={
        <form className="row" onSubmit={search} aria-label="Find reactors">
          <TextField label="Name contains" value={draft} onChange={setDraft} />
          <Button type="submit" isSmall>
            Find
          </Button>
        </form>
      }
    >
      <PagedTable
        label="Reactors"
        query={reactors}
        onPage={setPage}
        columns={columns}
        keyOf={({ id }) => id}
        empty="There is no reactor with such a name."
      />
    </Card>
  );
}
