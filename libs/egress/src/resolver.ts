import { Resolver } from 'node:dns/promises';
import { EgressError } from './egress-error.ts';
import { parseHosts, readHostsFile, readSearchDomains } from './hosts-file.ts';

/** Addresses of a host name, looked up for a tenant. */
export type ResolveFor = (tenantId: string, hostname: string) => Promise<readonly string[]>;

export interface HostResolverOptions {
  /** `address:port` of servers, instead of those of /etc/resolv.conf. */
  readonly servers?: readonly string[];
  /** For the whole look-up of a name, in milliseconds. */
  readonly timeoutMs?: number;
  /** How long a look-up waits for its turn, in milliseconds; 100 by default. */
  readonly waitMs?: number;
  readonly hosts?: () => string;
  readonly now?: () => number;
}

/**
 * Maximum number of concurrent look-ups of one tenant. Further ones wait for at most 100 ms: a name may hold data, and a decision to send it
 * is used for no longer (permit.ts).
 */
const perTenant = 16;
/** Maximum number of waiting look-ups of one tenant. A run has at most 32 requests in flight. */
const maxWaiting = 256;
const longestWaitMs = 100;
const maxCached = 2_000;
const longestMs = 60_000;
const shortestMs = 1_000;
/** The time for which the answer that a name has no address is cached. */
const negativeMs = 5_000;
const hostsMs = 10_000;

interface Cached {
  readonly answer: Promise<readonly string[]>;
  /** Infinity while the name is being looked up. */
  until: number;
}

/**
 * Looks host names up by c-ares. getaddrinfo would hold one of the four threads of libuv until its servers answer, so
 * silent servers of one tenant would stop the requests of all. Each tenant has its own places and cache, so that
 * response times do not reveal the look-ups of other tenants. The connector checks the addresses
 * (pinned-connector.ts), also cached ones.
 */
export function createHostResolver(options: HostResolverOptions = {}): ResolveFor {
  const {
    timeoutMs = 5_000,
    waitMs = longestWaitMs,
    hosts: readHosts = readHostsFile,
    now = Date.now,
  } = options;
  const cache = new Map<string, Cached>();
  const inTurn = createTurns(waitMs);
  let hosts = { names: parseHosts(readHosts()), until: now() + hostsMs };

  const local = (name: string): readonly string[] | undefined => {
    if (hosts.until <= now()) hosts = { names: parseHosts(readHosts()), until: now() + hostsMs };
    const listed = hosts.names.get(name);
    // RFC 6761, 6.3: localhost is never looked up at a server.
    return listed ?? (/(^|\.)localhost$/.test(name) ? ['127.0.0.1', '::1'] : undefined);
  };

  return (tenantId, hostname) => {
    const name = hostname.toLowerCase().replace(/\.$/, '');
    const known = local(name);
    if (known !== undefined) return Promise.resolve(known);
    const key = `${tenantId} ${name}`;
    const cached = cache.get(key);
    if (cached !== undefined && cached.until > now()) return cached.answer;
    cache.delete(key);
    const looked = inTurn(tenantId, () => lookUp(hostname, timeoutMs, options.servers));
    const entry: Cached = { answer: looked.then(({ addresses }) => addresses), until: Infinity };
    cache.set(key, entry);
    looked.then(
      ({ ttlMs }) => (entry.until = now() + Math.min(longestMs, Math.max(shortestMs, ttlMs))),
      (error: unknown) => (entry.until = isAnswer(error) ? now() + negativeMs : 0),
    );
    for (const oldest of cache.keys()) {
      if (cache.size <= maxCached) break;
      cache.delete(oldest);
    }
    return entry.answer;
  };
}

const tooMany = () => new EgressError('network', 'Too many host names are being looked up');

/** Resolves when it is called back. @throws EgressError after `waitMs` */
function waitIn(waiting: (() => void)[], waitMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const begin = () => {
      clearTimeout(timer);
      resolve();
    };
    const giveUp = () => {
      waiting.splice(waiting.indexOf(begin), 1);
      reject(tooMany());
    };
    const timer = setTimeout(giveUp, waitMs);
    waiting.push(begin);
  });
}

/** A limited number of look-ups of each tenant at once, in their order. */
function createTurns(waitMs: number) {
  const tenants = new Map<string, { running: number; waiting: (() => void)[] }>();
  return async <Result>(tenantId: string, work: () => Promise<Result>): Promise<Result> => {
    const own = tenants.get(tenantId) ?? { running: 0, waiting: [] };
    tenants.set(tenantId, own);
    if (own.waiting.length >= maxWaiting) throw tooMany();
    if (own.running >= perTenant) await waitIn(own.waiting, waitMs);
    else own.running += 1;
    try {
      return await work();
    } finally {
      // The place goes to the next waiting look-up, or is free.
      const next = own.waiting.shift();
      if (next !== undefined) next();
      else if (--own.running === 0) tenants.delete(tenantId);
    }
  };
}

interface Found {
  readonly addresses: readonly string[];
  readonly ttlMs: number;
}

/** Each look-up has its own resolver, which can be cancelled alone and reads the present /etc/resolv.conf. */
async function lookUp(
  hostname: string,
  timeoutMs: number,
  servers: readonly string[] | undefined,
): Promise<Found> {
  const resolver = new Resolver({ timeout: Math.ceil(timeoutMs / 2), tries: 2 });
  if (servers !== undefined) resolver.setServers(servers);
  const timer = setTimeout(() => resolver.cancel(), timeoutMs);
  try {
    let failure: unknown;
    for (const name of candidates(hostname)) {
      try {
        return await addressesOf(resolver, name);
      } catch (error) {
        failure = error;
        if (!isAnswer(error)) break;
      }
    }
    throw failure as Error;
  } finally {
    clearTimeout(timer);
    resolver.cancel();
  }
}

function candidates(hostname: string): string[] {
  if (hostname.endsWith('.')) return [hostname];
  const { domains, dots } = readSearchDomains();
  if (hostname.split('.').length - 1 >= dots) return [hostname];
  return [hostname, ...domains.map((domain) => `${hostname}.${domain}`)];
}

async function addressesOf(resolver: Resolver, name: string): Promise<Found> {
  const answers = await Promise.allSettled([
    resolver.resolve4(name, { ttl: true }),
    resolver.resolve6(name, { ttl: true }),
  ]);
  const records = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  if (records.length > 0) {
    const ttlMs = 1_000 * Math.min(...records.map(({ ttl }) => ttl));
    return { addresses: records.map(({ address }) => address), ttlMs };
  }
  const failures = answers.flatMap((answer) =>
    answer.status === 'rejected' ? [answer.reason as unknown] : [],
  );
  throw (failures.find((error) => !isAnswer(error)) ?? failures[0]) as Error;
}

/** Whether a server answered that there is no address. False when no server answered. */
function isAnswer(error: unknown): boolean {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  return code === 'ENOTFOUND' || code === 'ENODATA';
}
