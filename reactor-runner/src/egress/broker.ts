import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate } from 'node:zlib';
import { request as send, type Agent } from 'undici';
import { createAddressPolicy } from './addresses.ts';
import { EgressError } from './egress-error.ts';
import type { Resolve } from './pinned-connector.ts';
import { createHostResolver } from './resolver.ts';
import { TenantAgents } from './tenant-agents.ts';
import { nextHop } from './redirects.ts';
import type { Hop } from './redirects.ts';

export interface EgressRequest {
  /** Whose request it is: connections and look-ups of tenants are apart. */
  readonly tenantId?: string;
  readonly url: string;
  /** Default: GET. */
  readonly method?: string;
  readonly headers?: readonly (readonly [name: string, value: string])[];
  readonly body?: Uint8Array;
  /** `follow` (default) goes along at most five hops, each judged like the first; `manual` returns the redirect itself. */
  readonly redirect?: 'error' | 'follow' | 'manual';
  /** For the whole exchange with its redirects. Default: the broker's. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export interface EgressResponse {
  readonly status: number;
  readonly statusText: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** Already decompressed. */
  readonly body: Uint8Array;
  /** Where the answer came from, after redirects. */
  readonly url: string;
  readonly redirected: boolean;
}

/** @throws {EgressError} */
export type EgressFetch = (request: EgressRequest) => Promise<EgressResponse>;

export interface EgressBroker {
  readonly fetch: EgressFetch;
  close(): Promise<void>;
}

export interface EgressBrokerOptions {
  /** `VAULT_EGRESS_ALLOW`: private addresses that may be reached, also by plain http and on any port. */
  readonly allowCidrs?: readonly string[];
  /** Instead of DNS. */
  readonly resolve?: Resolve;
  /** `address:port` of DNS servers instead of the system's. */
  readonly dnsServers?: readonly string[];
  /** Ports of public addresses that may be reached. Default: 443. */
  readonly ports?: readonly number[];
  readonly timeoutMs?: number;
  readonly maxRequestBytes?: number;
  readonly maxResponseBytes?: number;
  /** Certificate authorities (PEM) instead of the system's. */
  readonly ca?: string;
}

const maxRedirects = 5;
/** Set by us, or about the connection rather than the request. */
const droppedHeaders =
  /^(accept-encoding|connection|content-length|expect|host|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade)$/i;
const methods = new Set(['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT']);

/**
 * The one way out for reactor code and webhooks: https to public addresses (rules.md §10), private ranges only
 * where the operator allowed them, addresses judged and pinned, redirects followed by hand, time and sizes bounded.
 * @throws {TypeError} when an entry of `allowCidrs` cannot be read
 */
export function createEgressBroker(options: EgressBrokerOptions = {}): EgressBroker {
  const { allowCidrs = [], ports = [443], timeoutMs = 30_000, ca, dnsServers, resolve: given } = options;
  const { maxRequestBytes = 4_194_304, maxResponseBytes = 4_194_304 } = options;
  const policy = createAddressPolicy(allowCidrs);
  const resolve = given
    ? (_tenantId: string, hostname: string) => given(hostname)
    : createHostResolver(dnsServers === undefined ? {} : { servers: dnsServers });
  const agents = new TenantAgents({ policy, resolve, ports, ca, connectTimeoutMs: 10_000 });

  const fetch: EgressFetch = async (request) => {
    const signals = [
      AbortSignal.timeout(request.timeoutMs ?? timeoutMs),
      ...(request.signal ? [request.signal] : []),
    ];
    const signal = AbortSignal.any(signals);
    const agent = agents.of(request.tenantId ?? '');
    let hop = firstHop(request, maxRequestBytes);
    for (let hops = 0; ; hops++) {
      const response = await exchange(agent, hop, signal, maxResponseBytes);
      const next =
        request.redirect === 'manual' ? undefined : nextHop(hop, response.status, response.location);
      if (next === undefined) return { ...response.answer, url: hop.url.href, redirected: hops > 0 };
      if (request.redirect === 'error')
        throw new EgressError('unexpected-redirect', 'The server answered with a redirect');
      if (hops === maxRedirects) throw new EgressError('too-many-redirects', 'Too many redirects');
      hop = next;
    }
  };
  return { fetch, close: () => agents.destroy() };
}

function firstHop({ url, method = 'GET', headers = [], body }: EgressRequest, maxRequestBytes: number): Hop {
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

interface Exchange {
  readonly status: number;
  readonly location: string | undefined;
  readonly answer: Omit<EgressResponse, 'redirected' | 'url'>;
}

async function exchange(agent: Agent, hop: Hop, signal: AbortSignal, maxBytes: number): Promise<Exchange> {
  try {
    const response = await send(hop.url, {
      dispatcher: agent,
      method: hop.method,
      headers: hop.headers.flatMap(([name, value]) => [name, value]),
      body: hop.body ?? null,
      signal,
    });
    const headers = toPairs(response.headers);
    const body = await decode(await collect(response.body, maxBytes), headers, maxBytes);
    const kept = headers.filter(
      ([name]) => !/^(connection|content-encoding|content-length|keep-alive|transfer-encoding)$/i.test(name),
    );
    const location = headers.find(([name]) => name === 'location')?.[1];
    return {
      status: response.statusCode,
      location,
      answer: { status: response.statusCode, statusText: response.statusText, headers: kept, body },
    };
  } catch (error) {
    throw asEgressError(error, signal);
  }
}

function toPairs(headers: Record<string, string[] | string | undefined>): [string, string][] {
  return Object.entries(headers).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value ?? '']).map((each): [string, string] => [
      name.toLowerCase(),
      each,
    ]),
  );
}

async function collect(body: AsyncIterable<Buffer>, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    // Leaving the loop destroys the stream and its connection.
    if (size > maxBytes) throw responseTooLarge();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

type Decoder = (body: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>;

const decoders: Readonly<Record<string, Decoder>> = {
  gzip: promisify(gunzip),
  deflate: promisify(inflate),
  br: promisify(brotliDecompress),
};

async function decode(body: Buffer, headers: readonly [string, string][], maxBytes: number): Promise<Buffer> {
  const encoding = headers.find(([name]) => name === 'content-encoding')?.[1].toLowerCase() ?? 'identity';
  const decoder = decoders[encoding];
  if (decoder === undefined || body.length === 0) return body;
  try {
    return await decoder(body, { maxOutputLength: maxBytes });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw responseTooLarge();
    throw error;
  }
}

function responseTooLarge(): EgressError {
  return new EgressError('response-too-large', 'The response is too large');
}

function asEgressError(error: unknown, signal: AbortSignal): EgressError {
  if (error instanceof EgressError) return error;
  if (signal.aborted) {
    const isTimeout = signal.reason instanceof DOMException && signal.reason.name === 'TimeoutError';
    return isTimeout
      ? new EgressError('timeout', 'The request timed out')
      : new EgressError('aborted', 'The request was aborted');
  }
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'UND_ERR_INVALID_ARG') return new EgressError('invalid-request', 'The request is not valid');
  if (code?.includes('TIMEOUT') === true) return new EgressError('timeout', 'The request timed out');
  return new EgressError('network', 'The request failed');
}
