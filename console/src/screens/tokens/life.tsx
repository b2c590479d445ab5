import { useState } from 'react';
import type { LogEntry } from '@token-vault/contracts';
import { type Page, withQuery } from '../../api/client.ts';
import { useNames } from '../../api/names.ts';
import { useQuery } from '../../api/use-query.ts';
import { hrefOf } from '../../app/router.ts';
import { useMay } from '../../app/session.tsx';
import { formatTime, plural } from '../../ui/format.ts';
import { Button, Card, Shown } from '../../ui/parts.tsx';
import { Empty, Loaded, Missing } from '../../ui/states.tsx';
import { actorOf } from '../audit/entries.tsx';

const ends = ['delete', 'expire', 'purge', 'denied'];

/** The log entries of a token, newest first. */
export function Life({ tokenId }: { readonly tokenId: string }) {
  const mayRead = useMay('log:read');
  const [page, setPage] = useState(1);
  const entries = useQuery<Page<LogEntry>>(
    mayRead ? withQuery('/logs', { entity_id: tokenId, page, size: 25 }) : undefined,
  );
  const link = (
    <a className="button small" href={hrefOf(['audit'], { range: '30d', entity_id: tokenId })}>
      In the audit
    </a>
  );
  return (
    <Card title="Life" actions={mayRead && link}>
      {mayRead ? (
        <Loaded query={entries}>
          {({ data, pagination }) => (
            <div className="stack-tight" aria-busy={entries.isLoading}>
              <p className="muted small">
                {plural(pagination.total_items, 'entry', 'entries')}, newest first, times in UTC
              </p>
              <Line entries={data} />
              {pagination.total_pages > 1 && (
                <div className="row">
                  <Button isSmall disabled={page === 1} onClick={() => setPage(page - 1)}>
                    Newer
                  </Button>
                  <Button isSmall disabled={page >= pagination.total_pages} onClick={() => setPage(page + 1)}>
                    Older
                  </Button>
                </div>
              )}
            </div>
          )}
        </Loaded>
      ) : (
        <Missing permission="log:read" />
      )}
    </Card>
  );
}

function Line({ entries }: { readonly entries: readonly LogEntry[] }) {
  const names = useNames(
    entries.flatMap(({ actor_id: id, actor_type: type }) => (id && type === 'application' ? [id] : [])),
  );
  if (entries.length === 0) return <Empty>The log has no entry of this token.</Empty>;
  return (
    <ol className="life" aria-label="Life of the token">
      {entries.map((entry, index) => (
        <li
          key={`${entry.created_at} ${index}`}
          className={ends.includes(entry.operation) ? 'bad' : entry.transform === 'reveal' ? 'seen' : ''}
        >
          <div>
            <strong>{entry.operation}</strong> by {actorOf(entry, names)}
            {entry.transform && (
              <>
                {' '}
                as <Shown transform={entry.transform} />
              </>
            )}
          </div>
          <div className="muted small">
            {formatTime(entry.created_at)} · {entry.message}
            {entry.reason && <> · reason: {entry.reason}</>}
          </div>
        </li>
      ))}
    </ol>
  );
}
