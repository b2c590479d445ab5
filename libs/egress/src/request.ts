import { EgressError } from './egress-error.ts';
import type { Hop } from './redirects.ts';

/** A request as the caller gives it, before its address is checked. */
export interface Asked {
  readonly url: string;
  /** Default: GET. */
  readonly method?: string;
  readonly headers?: readonly (readonly [name: string, value: string])[];
  readonly body?: Uint8Array;
}

/** Headers that the vault sets itself, and headers that describe the connection instead of the request. */
const droppedHeaders =
  /^(connection|content-length|expect|host|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade)$/i;
const methods = new Set(['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT']);

/** @throws {EgressError} for a request that cannot be sent */
export function firstHop({ url, method = 'GET', headers = [], body }: Asked, maxRequestBytes: number): Hop {
  const parsed = URL.parse(url);
  if (parsed === null || parsed.username !== '' || parsed.password !== '') {
    throw new EgressError('invalid-request', 'The URL is not valid');
  }
  if (parsed.protocol !== 'https:' && parsed.protocol !== 'http:') {
    throw new EgressError('refused-scheme', 'Only https requests are allowed');
  }
  const verb = method.toUpperCase();
  if (!methods.has(verb)) throw new EgressError('invalid-request', 'The method is not supported');
  if (body !== undefined && body.length > maxRequestBytes)
    throw new EgressError('request-too-large', 'The request body is too large');
  return { url: parsed, method: verb, headers: headers.filter(([name]) => !droppedHeaders.test(name)), body };
}

export function toPairs(headers: Record<string, string[] | string | undefined>): [string, string][] {
  return Object.entries(headers).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value ?? '']).map((each): [string, string] => [
      name.toLowerCase(),
      each,
    ]),
  );
}
