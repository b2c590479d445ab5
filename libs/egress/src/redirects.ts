import { EgressError } from './egress-error.ts';

export interface Hop {
  readonly url: URL;
  readonly method: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array | undefined;
}

const redirectStatuses = new Set([301, 302, 303, 307, 308]);
/** The only headers that are sent to another origin. A header of any other name may hold a credential. */
const harmlessHeaders = new Set([
  'accept',
  'accept-language',
  'content-language',
  'content-type',
  'user-agent',
]);

/**
 * The request that follows a redirect, or undefined when the answer is final. A body is never sent to another origin:
 * it may be card data, and the code chose only the first receiver.
 * @throws {EgressError} for a location that cannot be followed
 */
export function nextHop(hop: Hop, status: number, location: string | undefined): Hop | undefined {
  if (!redirectStatuses.has(status) || location === undefined) return undefined;
  const url = URL.parse(location, hop.url.href);
  if (
    url === null ||
    (url.protocol !== 'https:' && url.protocol !== 'http:') ||
    url.username !== '' ||
    url.password !== ''
  ) {
    throw new EgressError('invalid-request', 'The redirect location is not valid');
  }
  const becomesGet = status === 303 ? hop.method !== 'HEAD' : status <= 302 && hop.method === 'POST';
  const body = becomesGet ? undefined : hop.body;
  const sameOrigin = url.origin === hop.url.origin;
  if (body !== undefined && !sameOrigin) {
    throw new EgressError('unexpected-redirect', 'The redirect would carry the body to another origin');
  }
  const headers = hop.headers
    .filter(([name]) => sameOrigin || harmlessHeaders.has(name.toLowerCase()))
    .filter(([name]) => body !== undefined || !name.toLowerCase().startsWith('content-'));
  return { url, method: becomesGet ? 'GET' : hop.method, headers, body };
}
