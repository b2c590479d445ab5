/* The constructors come from core-js-pure (whatwg-url is eight times as large); the legacy functions are built on them. */
import URLConstructor from 'core-js-pure/stable/url';
import ParamsConstructor from 'core-js-pure/stable/url-search-params';
import { parse as parseQuery } from 'querystring';

export const URL = URLConstructor as typeof globalThis.URL;
export const URLSearchParams = ParamsConstructor as typeof globalThis.URLSearchParams;

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
  const auth = url.username === '' ? null : `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
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
  const { protocol, auth, host, hostname, port, pathname = '', search, query, hash } = value as Partial<LegacyUrl>;
  const authority = host ?? (hostname ? `${hostname}${port ? `:${port}` : ''}` : '');
  const asked = search ?? (typeof query === 'object' && query !== null ? `?${new URLSearchParams(query as Record<string, string>).toString()}` : '');
  const scheme = protocol ? `${protocol.replace(/:$/, '')}:` : '';
  return `${scheme}${authority ? `//${auth ? `${auth}@` : ''}${authority}` : ''}${pathname ?? ''}${asked}${hash ?? ''}`;
}

export function resolve(from: string, to: string): string {
  return new URL(to, from).href;
}

export function fileURLToPath(): never {
  throw new Error('There are no files here');
}
