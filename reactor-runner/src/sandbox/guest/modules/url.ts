/* The constructors come from core-js-pure (whatwg-url is eight times as large); the legacy functions are built on them. */
import URLConstructor from 'core-js-pure/stable/url';
import ParamsConstructor from 'core-js-pure/stable/url-search-params';
import { parse as parseQuery, stringify } from 'querystring';

export const URL = URLConstructor;
export const URLSearchParams = ParamsConstructor;

interface LegacyUrl {
  protocol: string | null;
  auth: string | null;
  host: string | null;
  port: string | null;
  hostname: string | null;
  hash: string | null;
  search: string | null;
  query: unknown;
  pathname: string | null;
  path: string | null;
  href: string;
}

export function parse(text: string, parsesQuery = false): LegacyUrl {
  const isAbsolute = /^[a-z][a-z0-9+.-]*:/i.test(text);
  const url = new URL(text, 'http://relative.invalid');
  const query = url.search.slice(1);
  const auth =
    url.username === '' ? null : `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  return {
    protocol: isAbsolute ? url.protocol : null,
    auth,
    host: isAbsolute ? url.host : null,
    port: url.port === '' ? null : url.port,
    hostname: isAbsolute ? url.hostname : null,
    hash: url.hash === '' ? null : url.hash,
    search: url.search === '' ? null : url.search,
    query: parsesQuery ? parseQuery(query) : query === '' ? null : query,
    pathname: url.pathname,
    path: `${url.pathname}${url.search}`,
    href: isAbsolute ? url.href : `${url.pathname}${url.search}${url.hash}`,
  };
}

export function format(value: string | URL | Partial<LegacyUrl>): string {
  if (typeof value === 'string' || value instanceof URL) return String(value);
  const { protocol, pathname, hash } = value;
  const scheme = protocol ? `${protocol.replace(/:$/, '')}:` : '';
  return `${scheme}${authorityOf(value)}${pathname ?? ''}${searchOf(value)}${hash ?? ''}`;
}

function authorityOf({ auth, host, hostname, port }: Partial<LegacyUrl>): string {
  const authority = host ?? (hostname ? `${hostname}${port ? `:${port}` : ''}` : '');
  return authority === '' ? '' : `//${auth ? `${auth}@` : ''}${authority}`;
}

function searchOf({ search, query }: Partial<LegacyUrl>): string {
  if (search !== undefined && search !== null) return search;
  if (typeof query !== 'object' || query === null) return '';
  return `?${stringify(query as Record<string, string>)}`;
}

export function resolve(from: string, to: string): string {
  return new URL(to, from).href;
}

export function fileURLToPath(): never {
  throw new Error('There are no files here');
}
