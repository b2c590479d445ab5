import { type FormEvent, useState } from 'react';
import type { Token } from '@token-vault/contracts';
import { tokenTypes } from '@token-vault/contracts/names';
import type { Page } from '../api/client.ts';
import { useQuery } from '../api/use-query.ts';
import { hrefOf, useFilters, usePageNumber } from '../app/router.ts';
import { useMay } from '../app/session.tsx';
import { formatTime, shortId } from '../ui/format.ts';
import { Button, Card, PageHead, SelectField, TextField } from '../ui/parts.tsx';
import { Missing, Note } from '../ui/states.tsx';
import { type Column, PagedTable } from '../ui/table.tsx';
import { Data } from './tokens/data.tsx';
import { listPathOf, type MetadataFilter, searchQueryOf, type TokenFilters } from './tokens/query.ts';

const filterNames = ['type', 'container', 'from', 'to'] as const;
const noMetadata: MetadataFilter = { key: '', value: '' };

export function Tokens() {
  const mayRead = useMay('token:read');
  const maySearch = useMay('token:search');
  return (
    <div className="stack">
      <PageHead title="Tokens" />
      {mayRead || maySearch ? (
        <TokenList mayRead={mayRead} maySearch={maySearch} />
      ) : (
        <>
          <Missing permission="token:read" />
          <Note>
            A management key never opens tokens. Add a private key to this session (&ldquo;Add key&rdquo;):
            its tokens are then listed, masked.
          </Note>
          <OpenById />
        </>
      )}
    </div>
  );
}

/** The entries of the log and the rules about a token are shown without the right to read the token. */
function OpenById() {
  const [id, setId] = useState('');
  return (
    <Card title="Open a token by its id">
      <div className="row">
        <TextField label="Token id" value={id} onChange={setId} />
        {id.length > 2 && (
          <a className="button" href={hrefOf(['tokens', id])}>
            Open
          </a>
        )}
      </div>
    </Card>
  );
}

interface ListProps {
  readonly mayRead: boolean;
  readonly maySearch: boolean;
}

function TokenList({ mayRead, maySearch }: ListProps) {
  const [filters, setFilters] = useFilters(filterNames);
  const [metadata, setMetadata] = useState(noMetadata);
  const [page, setPage] = usePageNumber();
  const isSearch = maySearch && (!mayRead || Boolean(filters.container || filters.from || filters.to));
  const tokens = useQuery<Page<Token>>(
    isSearch ? '/tokens/search' : listPathOf(filters, metadata, page),
    isSearch ? { body: { query: searchQueryOf(filters, metadata), page, size: 25 } } : {},
  );
  return (
    <>
      <FilterForm
        {...{ filters, metadata, maySearch }}
        onChange={(next, nextMetadata) => {
          setMetadata(nextMetadata);
          setFilters({ type: '', container: '', from: '', to: '', ...next });
        }}
      />
      <Card
        title="Tokens"
        isFlush
        actions={<span className="muted small">Data is masked or left out, never in plaintext.</span>}
      >
        <PagedTable
          label="Tokens"
          query={tokens}
          onPage={setPage}
          columns={columns}
          keyOf={({ id }) => id}
          empty="No token matches, or your key may not see those that do."
        />
      </Card>
    </>
  );
}

export function Metadata({ metadata }: { readonly metadata: Token['metadata'] }) {
  return (
    <span className="row small">
      {Object.entries(metadata ?? {}).map(([key, value]) => (
        <span key={key} className="muted">
          {key}: {value}
        </span>
      ))}
    </span>
  );
}

const columns: Column<Token>[] = [
  {
    name: 'Id',
    isNarrow: true,
    show: ({ id }) => (
      <a className="mono" href={hrefOf(['tokens', id])} title={id}>
        {shortId(id)}
      </a>
    ),
  },
  { name: 'Type', isNarrow: true, show: ({ type }) => type },
  { name: 'Data', show: (token) => <Data token={token} /> },
  {
    name: 'Container',
    isNarrow: true,
    show: ({ containers }) => <span className="mono">{containers?.join(' ')}</span>,
  },
  { name: 'Metadata', show: ({ metadata }) => <Metadata metadata={metadata} /> },
  { name: 'Created (UTC)', isNarrow: true, show: ({ created_at: at }) => formatTime(at) },
  { name: 'Expires', isNarrow: true, show: ({ expires_at: at }) => formatTime(at, 'minute') },
];

interface FilterFormProps {
  readonly filters: TokenFilters;
  readonly metadata: MetadataFilter;
  readonly maySearch: boolean;
  readonly onChange: (filters: TokenFilters, metadata: MetadataFilter) => void;
}

interface MetadataFieldsProps {
  readonly filter: MetadataFilter;
  readonly onChange: (filter: MetadataFilter) => void;
}

function MetadataFields({ filter, onChange }: MetadataFieldsProps) {
  return (
    <>
      <TextField label="Metadata key" value={filter.key} onChange={(key) => onChange({ ...filter, key })} />
      <TextField
        label="Metadata value"
        value={filter.value}
        onChange={(value) => onChange({ ...filter, value })}
      />
    </>
  );
}

function FilterForm({ filters, metadata, maySearch, onChange }: FilterFormProps) {
  const [draft, setDraft] = useState(filters);
  const [draftMetadata, setDraftMetadata] = useState(metadata);
  const apply = (event: FormEvent) => {
    event.preventDefault();
    onChange(draft, draftMetadata);
  };
  const clear = () => {
    setDraft({});
    setDraftMetadata(noMetadata);
    onChange({}, noMetadata);
  };
  const text = (name: 'container' | 'from' | 'to', label: string, type = 'text') => (
    <TextField
      label={label}
      type={type}
      disabled={!maySearch}
      value={draft[name] ?? ''}
      onChange={(value) => setDraft({ ...draft, [name]: value })}
    />
  );
  return (
    <form className="stack-tight" onSubmit={apply} aria-label="Filters of the tokens">
      <div className="filters">
        <SelectField
          label="Type"
          value={draft.type ?? ''}
          choices={[{ value: '', label: 'Any' }, ...tokenTypes.map((each) => ({ value: each, label: each }))]}
          onChange={(type) => setDraft({ ...draft, type })}
        />
        {text('container', 'Container and below')}
        {text('from', 'Created from', 'date')}
        {text('to', 'Created to', 'date')}
        <MetadataFields filter={draftMetadata} onChange={setDraftMetadata} />
      </div>
      <div className="row">
        <Button type="submit" look="primary">
          Apply
        </Button>
        <Button onClick={clear}>Clear</Button>
        {!maySearch && (
          <span className="muted small">Container and dates need the permission token:search.</span>
        )}
      </div>
    </form>
  );
}
