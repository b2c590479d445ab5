import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate } from 'node:zlib';
import type { Agent } from 'undici';
import { createAddressPolicy } from './addresses.ts';
import { EgressError } from './egress-error.ts';
import { asEgressError, responseTooLarge } from './failures.ts';
import type { Resolve } from './pinned-connector.ts';
import { createHostResolver } from './resolver.ts';
import { TenantAgents } from './tenant-agents.ts';
import { nextHop } from './redirects.ts';
import type { Hop } from './redirects.ts';
import { ask, type Permit } from './permit.ts';
import { firstHop, type Asked } from './request.ts';
import { createSend, type EgressSend } from './send.ts';

export interface EgressRequest extends Asked {
  /** The tenant of the request. Each tenant has connections and look-ups of its own. */
  readonly tenantId?: string;
  /** `follow` (default) follows at most five redirects and checks each like the first request; `manual` returns the redirect itself. */
  readonly redirect?: 'error' | 'follow' | 'manual';
  /** Time limit of the whole exchange with its redirects. Default: that of the broker. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** Called for each hop. */
  readonly permit?: Permit | undefined;
}

export interface EgressResponse {
  readonly status: number;
  readonly statusText: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** Already decompressed. */
  readonly body: Uint8Array;
  /** The URL of the answer, after redirects. */
  readonly url: string;
  readonly redirected: boolean;
}

/** @throws {EgressError} */
export type EgressFetch = (request: EgressRequest) => Promise<EgressResponse>;

export interface EgressBroker {
  readonly fetch: EgressFetch;
  readonly send: EgressSend;
  close(): Promise<void>;
}

export interface EgressBrokerOptions {
  /** `VAULT_EGRESS_ALLOW`: private addresses that may be reached, also by plain http and on any port. */
  readonly allowCidrs?: readonly string[];
  /** Used instead of DNS. */
  readonly resolve?: Resolve;
  /** `address:port` of DNS servers instead of the system's. */
  readonly dnsServers?: readonly string[];
  /** Ports of public addresses that may be reached. Default: 443. */
  readonly ports?: readonly number[];
  /** Time limit of a whole exchange. Default: 30 s for `fetch`, 120 s for `send`. */
  readonly timeoutMs?: number;
  /** Time limit of `send` for the arrival of the head of the answer, and for each pause within its body. Default: 30 s. */
  readonly answerTimeoutMs?: number;
  readonly maxRequestBytes?: number;
  readonly maxResponseBytes?: number;
  /** Certificate authorities (PEM) instead of the system's. */
  readonly ca?: string;
}

const maxRedirects = 5;

/**
 * The only way out for reactor code and webhooks: https to public addresses (rules.md §10), and to private ranges
 * only where the operator allowed them. Addresses are checked and pinned, redirects are followed here, time and sizes
 * are bounded.
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
    let hop = withoutEncodings(firstHop(request, maxRequestBytes));
    for (let hops = 0; ; hops++) {
      const response = await exchange(agent, hop, {
        signal,
        permit: request.permit,
        maxBytes: maxResponseBytes,
      });
      const next =
        request.redirect === 'manual' ? undefined : nextHop(hop, response.status, response.location);
      if (next === undefined) return { ...response.answer, url: hop.url.href, redirected: hops > 0 };
      if (request.redirect === 'error')
        throw new EgressError('unexpected-redirect', 'The server answered with a redirect');
      if (hops === maxRedirects) throw new EgressError('too-many-redirects', 'Too many redirects');
      hop = next;
    }
  };
  const send = createSend(agents, { ...options, maxRequestBytes, maxResponseBytes });
  return { fetch, send, close: () => agents.destroy() };
}

/** Answers are decompressed here, so the request names only encodings that `decoders` has. */
const withoutEncodings = (hop: Hop): Hop => ({
  ...hop,
  headers: hop.headers.filter(([name]) => name.toLowerCase() !== 'accept-encoding'),
});

interface Exchange {
  readonly status: number;
  readonly location: string | undefined;
  readonly answer: Omit<EgressResponse, 'redirected' | 'url'>;
}

interface ExchangeOptions {
  readonly signal: AbortSignal;
  readonly permit: Permit | undefined;
  readonly maxBytes: number;
}

async function exchange(
  agent: Agent,
  hop: Hop,
  { signal, permit, maxBytes }: ExchangeOptions,
): Promise<Exchange> {
  const response = await ask({ agent, hop, signal, maxResponseBytes: maxBytes }, permit);
  const { status, statusText, headers } = response;
  try {
    const body = await decode(await collect(response.body), headers, maxBytes);
    const kept = headers.filter(
      ([name]) => !/^(connection|content-encoding|content-length|keep-alive|transfer-encoding)$/i.test(name),
    );
    const location = headers.find(([name]) => name === 'location')?.[1];
    return { status, location, answer: { status, statusText, headers: kept, body } };
  } catch (error) {
    throw asEgressError(error, signal);
  }
}

async function collect(body: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks);
}

type Decoder = (body: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>;

const decoders: Readonly<Record<string, Decoder>> = {
  gzip: promisify(gunzip),
  deflate: promisify(inflate),
  br: promisify(brotliDecompress),
};

async function decode(body: Buffer, headers: EgressResponse['headers'], maxBytes: number): Promise<Buffer> {
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
