import { useEffect, useState } from 'react';
import type { Application } from '@token-vault/contracts';
import { useMay } from '../app/session.tsx';
import { call, type Page, withQuery } from './client.ts';

const known = new Map<string, string>();

function learnNames(applications: readonly { readonly id: string; readonly name: string }[]): void {
  for (const { id, name } of applications) known.set(id, name);
}

/** The names of applications by their ids. Ids without a name are those of others, or the key does not allow to read them. */
export function useNames(ids: readonly string[]): ReadonlyMap<string, string> {
  const mayRead = useMay('application:read');
  const [names, setNames] = useState<ReadonlyMap<string, string>>(known);
  const missing = [...new Set(ids)]
    .filter((id) => !known.has(id))
    .slice(0, 100)
    .join(' ');
  useEffect(() => {
    if (!mayRead || missing === '') return;
    const abort = new AbortController();
    const path = withQuery('/applications', { id: missing.split(' '), size: 100 });
    call<Page<Application>>('GET', path, { signal: abort.signal })
      .then(({ data }) => {
        learnNames(data);
        setNames(new Map(known));
      })
      // The ids are shown instead.
      .catch(() => undefined);
    return () => abort.abort();
  }, [mayRead, missing]);
  return names;
}
