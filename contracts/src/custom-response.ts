/**
 * What `CustomHttpResponseError` of reactor code may answer (rules.md §10). The runner applies it to what code gives, the HTTP
 * edge to what leaves: an answer that was stored under older rules passes the second.
 */

/** Names and values together, as they are sent. */
export const maxCustomHeaderBytes = 16_384;

const standardNames = new Set([
  'allow',
  'content-disposition',
  'content-language',
  'content-location',
  'content-type',
  'etag',
  'expires',
  'last-modified',
  'link',
  'location',
  'retry-after',
  'vary',
]);

/** Beginnings of names by which an answer gives orders to a proxy, a delivery network or a browser, or speaks for the vault. */
const reservedFamilies = [
  'accel',
  'amz',
  'appengine',
  'arr',
  'azure',
  'cache',
  'content',
  'dns',
  'envoy',
  'esi',
  'fastly',
  'forward',
  'frame',
  'goog',
  'http',
  'internal',
  'istio',
  'kong',
  'lighttpd',
  'litespeed',
  'method',
  'ms-',
  'nginx',
  'original',
  'permitted',
  'proxy',
  'rate',
  'real',
  'redirect',
  'reproxy',
  'rewrite',
  'robots',
  'sendfile',
  'served',
  'svc',
  'traefik',
  'ua-',
  'varnish',
  'vault',
  'xss',
];
const ownName = new RegExp(`^x-(?!${reservedFamilies.join('|')})[a-z0-9][a-z0-9-]{0,98}$`);
const fieldValue = /^[\t\x20-\x7e\x80-\xff]{0,8192}$/;

function isAllowed(name: string): boolean {
  const lower = name.toLowerCase();
  return standardNames.has(lower) || ownName.test(lower);
}

/** Those that may be sent; all others are left out. */
export function allowedCustomHeaders(given: Readonly<Record<string, unknown>>): Record<string, string> {
  const allowed = Object.entries(given).filter(
    (entry): entry is [string, string] =>
      typeof entry[1] === 'string' && isAllowed(entry[0]) && fieldValue.test(entry[1]),
  );
  return Object.fromEntries(allowed);
}

/** As lines of HTTP/1.1; a value has one byte a character. */
export function customHeaderBytes(headers: Readonly<Record<string, string>>): number {
  return Object.entries(headers).reduce((total, [name, value]) => total + `${name}: ${value}\r\n`.length, 0);
}

export function isCustomStatus(status: number): boolean {
  return Number.isInteger(status) && status >= 200 && status <= 599;
}

/** The body as it is sent: a string as it stands, anything else as JSON; with the type it has unless the code names one. */
export function customContent(
  headers: Readonly<Record<string, string>>,
  body: unknown,
): { readonly text: string; readonly contentType: string } {
  const given = Object.entries(headers).find(([name]) => name.toLowerCase() === 'content-type')?.[1];
  if (typeof body === 'string') return { text: body, contentType: given ?? 'text/plain; charset=utf-8' };
  return { text: JSON.stringify(body), contentType: given ?? 'application/json; charset=utf-8' };
}
