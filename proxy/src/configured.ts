import {
  coversDestination,
  parseDestinations,
  ValidationError,
  withoutProxyKeys,
  type RawRequest,
} from '@token-vault/contracts';
import { isAllowed, type Sender } from './destination.ts';

/** A proxy as the log has it. */
export interface ConfiguredProxy {
  readonly id: string;
  /** Of its settings: with another one it is another proxy. */
  readonly revision: number;
  /** Scheme, host, port and base path, without a slash at the end. */
  readonly destination: string;
  /** Further destinations to which its code may send requests. */
  readonly destinations: readonly string[];
  readonly requestCode: string | undefined;
  readonly responseCode: string | undefined;
  readonly applicationId: string | undefined;
  /** Opens its configuration. @throws DomainError when the proxy was deleted */
  readonly configuration: () => Promise<Readonly<Record<string, string>>>;
}

/** Visible ASCII: servers could interpret other characters of a path differently. */
const written = /^[\x21-\x5b\x5d-\x7e]*$/;
const expression = /(\{|%7b){2}/i;
/** A step out of the base path, also for a server that decodes before it resolves. */
const steps = /(^|[/\\])\.{1,2}([/\\;]|$)/;

const decodedOnce = (path: string): string =>
  path.replaceAll(/%([0-9a-f]{2})/gi, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 16)),
  );
const decoded = (path: string): string => decodedOnce(decodedOnce(decodedOnce(path)));

/** A URL below the destination. @throws ValidationError for a path that could lead elsewhere */
export function urlBelow({ destination }: Pick<ConfiguredProxy, 'destination'>, path: string): URL {
  if (!written.test(path)) throw ValidationError.of('path', 'must be visible ASCII without a backslash');
  if (expression.test(path)) throw ValidationError.of('path', 'must not hold an expression');
  if (/[?#]/.test(path)) throw ValidationError.of('path', 'must not hold a query or a fragment');
  if (steps.test(decoded(path))) throw ValidationError.of('path', 'must not hold dot segments');
  const url = URL.parse(destination + path);
  const base = new URL(destination);
  const basePath = base.pathname.replace(/\/$/, '');
  const isBelow =
    url?.origin === base.origin && (url.pathname === basePath || url.pathname.startsWith(`${basePath}/`));
  if (!url || !isBelow) throw ValidationError.of('path', 'must be below the base path of the proxy');
  return url;
}

/** The URL to which a request to a proxy is sent. @throws ValidationError */
export const urlOf = (proxy: ConfiguredProxy, { path }: RawRequest): URL =>
  urlBelow(proxy, /^\/proxies\/[^/]*\/invoke(.*)$/i.exec(path)?.[1] ?? '');

/** The request without the key of the proxy. */
export const withoutKey = (raw: RawRequest): RawRequest => ({ ...raw, query: withoutProxyKeys(raw.query) });

/** Whether code of the proxy may send a request to the URL: within the list of the proxy and those of the tenant. */
export function mayFetch(proxy: ConfiguredProxy, url: URL, sender: Sender): boolean {
  if (!isAllowed(url, sender, proxy)) return false;
  const patterns = proxy.destinations.flatMap((each) => parseDestinations(each) ?? []);
  const isOpen = patterns.length === 0 && sender.tenant.plan !== 'enterprise';
  return isOpen || url.origin === new URL(proxy.destination).origin || coversDestination(patterns, url);
}
