import { useState } from 'react';
import type { Application } from '@token-vault/contracts';
import { type Page, withQuery } from '../api/client.ts';
import { useQuery } from '../api/use-query.ts';
import { go, hrefOf, useFilters, usePageNumber } from '../app/router.ts';
import { useMay } from '../app/session.tsx';
import { formatTime, plural } from '../ui/format.ts';
import { Badge, Button, Card, PageHead, SelectField } from '../ui/parts.tsx';
import { Missing } from '../ui/states.tsx';
import { type Column, PagedTable } from '../ui/table.tsx';
import { ApplicationDialog } from './applications/application-dialog.tsx';
import { KeyDialog } from './applications/key-dialog.tsx';
import { Matrix } from './applications/matrix.tsx';

const applicationTypes = ['private', 'public', 'management'] as const;

const maxNamed = 6;
const rightsOf = (permissions: readonly string[], rules: number): string =>
  [
    permissions.length > maxNamed ? plural(permissions.length, 'permission') : permissions.join(', '),
    rules > 0 && plural(rules, 'rule'),
  ]
    .filter(Boolean)
    .join('; ');

const columns: Column<Application>[] = [
  { name: 'Name', show: ({ id, name }) => <a href={hrefOf(['applications', id])}>{name}</a> },
  { name: 'Type', show: ({ type }) => <Badge>{type}</Badge> },
  {
    name: 'Rights',
    show: ({ permissions = [], rules = [] }) => rightsOf(permissions, rules.length),
  },
  { name: 'Created (UTC)', isNarrow: true, show: ({ created_at: at }) => formatTime(at) },
  { name: 'Expires', isNarrow: true, show: ({ expires_at: at }) => formatTime(at, 'minute') },
];

export function Applications() {
  const mayRead = useMay('application:read');
  const mayCreate = useMay('application:create');
  const [isCreating, setCreating] = useState(false);
  const [made, setMade] = useState<{ id: string; key: string }>();
  return (
    <div className="stack">
      <PageHead title="Applications">
        {mayCreate && (
          <Button look="primary" onClick={() => setCreating(true)}>
            Create application
          </Button>
        )}
      </PageHead>
      {mayRead ? (
        <>
          <List key={made?.id} />
          <Matrix />
        </>
      ) : (
        <Missing permission="application:read" />
      )}
      {isCreating && (
        <ApplicationDialog
          onClose={() => setCreating(false)}
          onSaved={({ id, key }) => {
            setCreating(false);
            if (key !== undefined) setMade({ id, key });
          }}
        />
      )}
      {made && (
        <KeyDialog
          secret={made.key}
          onClose={() => {
            setMade(undefined);
            go(hrefOf(['applications', made.id]));
          }}
        />
      )}
    </div>
  );
}

function List() {
  const [filters, setFilters] = useFilters(['type']);
  const [page, setPage] = usePageNumber();
  const applications = useQuery<Page<Application>>(
    withQuery('/applications', { type: filters.type, page, size: 20 }),
  );
  return (
    <Card
      title="All applications"
      isFlush
      actions={
        <SelectField
          label="Type"
          value={filters.type ?? ''}
          choices={[
            { value: '', label: 'Any' },
            ...applicationTypes.map((each) => ({ value: each, label: each })),
          ]}
          onChange={(type) => setFilters({ type })}
        />
      }
    >
      <PagedTable
        label="Applications"
        query={applications}
        onPage={setPage}
        columns={columns}
        keyOf={({ id }) => id}
        empty="There is no application of this type."
      />
    </Card>
  );
}
