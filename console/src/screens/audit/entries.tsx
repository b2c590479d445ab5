import type { LogEntry } from '@token-vault/contracts';
import type { Page } from '../../api/client.ts';
import { useNames } from '../../api/names.ts';
import type { Query } from '../../api/use-query.ts';
import { hrefOf } from '../../app/router.ts';
import { formatTime, shortId } from '../../ui/format.ts';
import { Badge, Shown } from '../../ui/parts.tsx';
import { type Column, PagedTable } from '../../ui/table.tsx';

const pages: Readonly<Record<string, string>> = {
  application: 'applications',
  reactor: 'reactors',
  token: 'tokens',
  card: 'tokens',
  bank: 'tokens',
};

function EntityLink({ entry }: { readonly entry: LogEntry }) {
  const { entity_type: type, entity_id: id } = entry;
  const page = pages[type];
  if (id === undefined) return <>{type}</>;
  return (
    <>
      {type}{' '}
      {page === undefined ? (
        <span className="mono" title={id}>
          {shortId(id)}
        </span>
      ) : (
        <a className="mono" href={hrefOf([page, id])} title={id}>
          {shortId(id)}
        </a>
      )}
    </>
  );
}

export function actorOf(
  { actor_id: id, actor_type: type }: LogEntry,
  names: ReadonlyMap<string, string>,
): string {
  if (id === undefined) return type ?? '';
  const name = names.get(id);
  if (name !== undefined) return name;
  return type === 'system' ? 'the vault' : `${type ?? ''} ${shortId(id)}`.trim();
}

const toneOf = (operation: string) => (['denied', 'authenticate'].includes(operation) ? 'bad' : undefined);

const columnsOf = (names: ReadonlyMap<string, string>): Column<LogEntry>[] => [
  { name: 'Time (UTC)', isNarrow: true, show: ({ created_at: at }) => formatTime(at) },
  { name: 'Actor', show: (entry) => <span title={entry.actor_id}>{actorOf(entry, names)}</span> },
  { name: 'Operation', show: ({ operation }) => <Badge tone={toneOf(operation)}>{operation}</Badge> },
  { name: 'Entity', show: (entry) => <EntityLink entry={entry} /> },
  { name: 'Shown', show: ({ transform }) => <Shown transform={transform} /> },
  { name: 'Message', show: ({ message }) => message },
  { name: 'Reason', show: ({ reason }) => reason },
  {
    name: 'Trace',
    show: ({ trace_id: id }) =>
      id === undefined ? null : (
        <a className="mono" href={hrefOf(['audit'], { range: '30d', trace_id: id })} title={id}>
          {shortId(id)}
        </a>
      ),
  },
];

interface EntriesProps {
  readonly query: Query<Page<LogEntry>>;
  readonly onPage: (page: number) => void;
}

export function Entries({ query, onPage }: EntriesProps) {
  const names = useNames(
    (query.data?.data ?? []).flatMap(({ actor_id: id, actor_type: type }) =>
      id && type === 'application' ? [id] : [],
    ),
  );
  return (
    <PagedTable
      label="Log entries"
      query={query}
      onPage={onPage}
      columns={columnsOf(names)}
      keyOf={(entry, index) => `${entry.created_at} ${index}`}
      empty="No entry matches."
    />
  );
}
