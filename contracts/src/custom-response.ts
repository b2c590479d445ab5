/**
 * Which responses `CustomHttpResponseError` of reactor code may give (rules.md §10). Checked twice: the runner checks the response that the
 * code gives; the HTTP edge checks the response that leaves, because a stored answer may have been accepted under older rules.
 */

/** Total size of header names and values as they are sent. */
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

/** Prefixes of header names that instruct a proxy, a delivery network or a browser, or that only the vault may set. */
const reservedFamilies = [
  'accel',
  'akamai',
  'amz',
  'appengine',
  'arr',
  'aws',
  'azure',
  'ban',
  'cache',
  'cdn',
  'content',
  'csp',
  'dns',
  'download',
  'edge',
  'envoy',
  'esi',
  'fastly',
  'forward',
  'frame',
  'goog',
  'http',
  'internal',
  'invalidate',
  'istio',
  'kong',
  'lighttpd',
  'litespeed',
  'method',
  'middleware',
  'ms-',
  'netlify',
  'next',
  'nginx',
  'original',
  'permitted',
  'proxy',
  'purge',
  'rate',
  'real',
  'redirect',
  'reproxy',
  'rewrite',
  'robots',
  'sendfile',
  'served',
  'sourcemap',
  'surrogate',
  'svc',
  'traefik',
  'ua-',
  'varnish',
  'vault',
  'vercel',
  'webkit',
  'xss',
];
const ownName = new RegExp(`^x-(?!${reservedFamilies.join('|')})[a-z0-9][a-z0-9-]{0,98}$`);
const reservedName = new RegExp(`^x-(${reservedFamilies.join('|')})`, 'i');

/**
 * Whether a header, by the beginning of its name, instructs a proxy, a delivery network or a browser, or is one of the vault's own headers.
 */
export const isReservedHeader = (name: string): boolean => reservedName.test(name);
const fieldValue = /^[\t\x20-\x7e\x80-\xff]*$/;

function isAllowed(name: string): boolean {
  const lower = name.toLowerCase();
  return standardNames.has(lower) || ownName.test(lower);
}

/** The headers that may be sent; all others are removed. */
export function allowedCustomHeaders(given: Readonly<Record<string, unknown>>): Record<string, string> {
  const allowed = Object.entries(given).filter(
    (entry): entry is [string, string] =>
      typeof entry[1] === 'string' && isAllowed(entry[0]) && fieldValue.test(entry[1]),
  );
  return Object.fromEntries(allowed);
}

/** The size of the headers as lines of HTTP/1.1; each character of a value is one byte. */
export function customHeaderBytes(headers: Readonly<Record<string, string>>): number {
  return Object.entries(headers).reduce((total, [name, value]) => total + `${name}: ${value}\r\n`.length, 0);
}

export function isCustomStatus(status: number): boolean {
  return Number.isInteger(status) && status >= 200 && status <= 599;
}

/** The body as it is sent: a string unchanged, any other value as JSON. The content type follows from that unless the code names one. */
export function customContent(
  headers: Readonly<Record<string, string>>,
  body: unknown,
): { readonly text: string; readonly contentType: string } {
  const given = Object.entries(headers).find(([name]) => name.toLowerCase() === 'content-type')?.[1];
  if (typeof body === 'string') return { text: body, contentType: given ?? 'text/plain; charset=utf-8' };
  return { text: JSON.stringify(body), contentType: given ?? 'application/json; charset=utf-8' };
}
