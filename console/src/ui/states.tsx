import type { ReactNode } from 'react';
import type { ApiError } from '../api/client.ts';
import type { Query } from '../api/use-query.ts';
import { Button, type Tone } from './parts.tsx';

interface NoteProps {
  readonly tone?: Tone;
  readonly children: ReactNode;
}

export function Note({ tone, children }: NoteProps) {
  return (
    <div className={`note ${tone ?? ''}`} role={tone === 'bad' ? 'alert' : 'status'}>
      {children}
    </div>
  );
}

export function Empty({ children }: { readonly children: ReactNode }) {
  return <p className="empty">{children}</p>;
}

/** Names a missing permission. For every other error it shows the vault's own text and the trace id. */
export function Failure({ error, retry }: { readonly error: ApiError; readonly retry?: () => void }) {
  const { detail, errors, trace_id: traceId } = error.problem;
  if (error.status === 403) {
    return (
      <Note tone="warn">
        <strong>Your key does not allow this.</strong>
        <span>{detail ?? 'A permission is missing.'}</span>
      </Note>
    );
  }
  return (
    <Note tone="bad">
      <strong>{error.message}</strong>
      {errors && (
        <ul>
          {Object.entries(errors).map(([field, messages]) => (
            <li key={field}>
              {field}: {messages.join('; ')}
            </li>
          ))}
        </ul>
      )}
      {traceId !== undefined && <span className="muted small">Trace id {traceId}</span>}
      {retry && (
        <div>
          <Button isSmall onClick={retry}>
            Try again
          </Button>
        </div>
      )}
    </Note>
  );
}

export function Missing({ permission }: { readonly permission: string }) {
  return (
    <Note tone="warn">
      <strong>Your key does not allow this.</strong>
      <span>
        It lacks the permission <code>{permission}</code>.
      </span>
    </Note>
  );
}

interface LoadedProps<Data> {
  readonly query: Query<Data>;
  readonly children: (data: Data) => ReactNode;
}

/** The content of a query, or the state in which it is. */
export function Loaded<Data>({ query, children }: LoadedProps<Data>) {
  if (query.data !== undefined) return children(query.data);
  if (query.error !== undefined) return <Failure error={query.error} retry={query.reload} />;
  return (
    <p className="empty" role="status">
      Loading …
    </p>
  );
}
