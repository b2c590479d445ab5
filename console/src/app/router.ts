import { useSyncExternalStore } from 'react';

/** The place in the console: the part of the address behind `#`. It never holds token data or a secret. */
export interface Place {
  readonly parts: readonly string[];
  readonly query: URLSearchParams;
}

function subscribe(listener: () => void): () => void {
  addEventListener('hashchange', listener);
  return () => removeEventListener('hashchange', listener);
}

const decoded = (part: string): string => {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
};

export function usePlace(): Place {
  const hash = useSyncExternalStore(subscribe, () => location.hash);
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  return { parts: path.split('/').filter(Boolean).map(decoded), query: new URLSearchParams(query) };
}

type Values = Readonly<Record<string, string | undefined>>;

export function hrefOf(parts: readonly string[], query: Values = {}): string {
  const given = Object.entries(query).filter((each): each is [string, string] => Boolean(each[1]));
  const search = new URLSearchParams(given).toString();
  return `#/${parts.map(encodeURIComponent).join('/')}${search === '' ? '' : `?${search}`}`;
}

export function go(href: string): void {
  location.hash = href;
}

/** Filters that are part of the address, so that a page can be kept as a bookmark. A change of one goes back to the first page. */
export function useFilters<Name extends string>(
  names: readonly Name[],
): [Partial<Record<Name, string>>, (changes: Partial<Record<Name, string>>) => void] {
  const { parts, query } = usePlace();
  const values: Partial<Record<Name, string>> = {};
  for (const name of names) {
    const value = query.get(name);
    if (value !== null) values[name] = value;
  }
  return [values, (changes) => go(hrefOf(parts, { ...values, ...changes }))];
}

/** The number of the shown page and the address of another one. */
export function usePageNumber(): [number, (page: number) => void] {
  const { parts, query } = usePlace();
  const number = Math.max(1, Number(query.get('page') ?? 1) || 1);
  return [
    number,
    (page) =>
      go(hrefOf(parts, { ...Object.fromEntries(query), page: page === 1 ? undefined : String(page) })),
  ];
}
