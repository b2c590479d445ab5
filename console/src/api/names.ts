import { useEffect, useSyncExternalStore } from 'react';
import type { Application } from '@token-vault/contracts';
import { useMay } from '../app/session.tsx';
import { call, type Page, withQuery } from './client.ts';

const known = new Map<string, string>();
const listeners = new Set<() => void>();
let version = 0;

/** Every component that shows names learns of those that another one has read. */
function learn(applications: readonly Application[]): void {
  for (const { id, name } of applications) known.set(id, name);
  version += 1;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The names of applications by their ids. Ids without a name are those of others, or the key does not allow to read them. */
export function useNames(ids: readonly string[]): ReadonlyMap<string, string> {
  const mayRead = useMay('application:read');
  useSyncExternalStore(subscribe, () => version);
  const missing = [...new Set(ids)]
    .filter((id) => !known.has(id))
    .slice(0, 100)
    .join(' ');
  useEffect(() => {
    if (!mayRead || missing === '') return;
    const abort = new AbortController();
    const path = withQuery('/applications', { id: missing.split(' '), size: 100 });
    call<Page<Application>>('GET', path, { signal: abort.signal })
      .then(({ data }) => learn(data))
      // The ids are shown instead.
      .catch(() => undefined);
    return () => abort.abort();
  }, [mayRead, missing]);
  return known;
}
